package diagnose

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// Reason codes of the credential.
const (
	reasonCredential    = "credential_unusable"
	reasonCredentialEnd = "credential_expires_soon"
)

// The fields that name a credential's files.
const (
	fieldJWT  = "auth.jwt.jwtFile"
	fieldCert = "auth.cert.certificateFile"
	fieldKey  = "auth.cert.keyFile"
)

// credentialFile is one file of the login's credential. Its rule is the one that
// auth reads it with.
type credentialFile struct {
	field, path string
	forbid      fs.FileMode
	maxSize     int64
	// end is when what the file holds ends; nil for one that says nothing of it.
	end func([]byte) (time.Time, bool)
}

func credentialFiles(a config.Auth) []credentialFile {
	if a.Method == config.MethodCert {
		return []credentialFile{
			{fieldCert, a.Cert.CertificateFile, securefile.PublicReadOnly, 256 << 10, certificateEnd},
			{fieldKey, a.Cert.KeyFile, securefile.Private, 64 << 10, nil},
		}
	}
	return []credentialFile{{fieldJWT, a.JWT.JWTFile, securefile.Private, 64 << 10, jwtEnd}}
}

// checkMaterial looks at the credential on this node and sends nothing.
func checkMaterial(_ context.Context, e *exam) finding {
	var end time.Time
	for _, f := range credentialFiles(e.config.Auth) {
		content, err := securefile.Read(f.path, securefile.Rule{What: f.field, Forbid: f.forbid, MaxSize: f.maxSize})
		if err != nil {
			return unusableFile(reasonCredential, f.field, f.path, fileError(err))
		}
		if f.end != nil {
			end, _ = f.end(content)
		}
		clear(content)
	}
	if e.way == nil {
		return skippedFor(openbaoTLS)
	}
	if err := e.way.Login.Check(); err != nil {
		return e.unusableCredential(err)
	}
	return e.ending(end)
}

// unusableCredential is what auth's local checks say of a credential whose files
// can be read.
func (e *exam) unusableCredential(err error) finding {
	f := faultOf(err)
	if f == nil {
		return failure(err)
	}
	message, next := split(f.Detail, "replace the credential")
	if e.config.Auth.Method == config.MethodJWT {
		message = fieldJWT + ": " + message
	}
	return e.withoutPaths(failed(reasonCredential, message, next))
}

// ending judges how long a good credential remains one.
func (e *exam) ending(end time.Time) finding {
	if end.IsZero() {
		return finding{} // replaced between two looks at it
	}
	left := end.Sub(e.now())
	if a := e.config.Auth; a.Method == config.MethodCert {
		if left >= time.Duration(a.Cert.MinRemainingTTL) {
			return passed("the client certificate is valid until " + moment(end))
		}
		return warning(reasonCredentialEnd,
			fmt.Sprintf("the client certificate ends in %s, at %s, which is less than auth.cert.minRemainingTtl (%s)", span(left), moment(end), a.Cert.MinRemainingTTL),
			"replace the files in "+fieldCert+" and "+fieldKey+" together, and repair what should have done so")
	}
	least := e.config.Auth.JWT.MinRemainingTTL
	if left >= 2*time.Duration(least) {
		return passed("the JWT is valid until " + moment(end))
	}
	return warning(reasonCredentialEnd,
		fmt.Sprintf("the JWT ends in %s, at %s, and is not used once less than auth.jwt.minRemainingTtl (%s) is left", span(left), moment(end), least),
		"replace the file in "+fieldJWT+", and repair what should have done so")
}

// jwtEnd reads exp without any judgement: auth has judged the JWT.
func jwtEnd(content []byte) (time.Time, bool) {
	parts := strings.Split(strings.TrimSpace(string(content)), ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expiry *jwt.NumericDate `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expiry == nil {
		return time.Time{}, false
	}
	return claims.Expiry.Time(), true
}

// certificateEnd is the end of the first certificate, the client's own.
func certificateEnd(content []byte) (time.Time, bool) {
	block, _ := pem.Decode(content)
	if block == nil {
		return time.Time{}, false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return c.NotAfter, true
}

// checkLogin makes the examination's one login.
func checkLogin(ctx context.Context, e *exam) finding {
	token, err := e.way.Session.Token(ctx)
	if err != nil {
		return e.withoutPaths(failure(err))
	}
	e.token = token
	life, uses := e.way.Session.Granted()
	return e.granted(life, uses)
}

// Reason codes of a token that will not do for long.
const (
	reasonTokenShort = "token_short"
	reasonTokenUses  = "token_uses_limited"
)

// granted judges what OpenBao granted with the token. What it says does not
// depend on when it is asked.
func (e *exam) granted(life time.Duration, uses int) finding {
	window := e.config.Auth.LoginBeforeExpiry
	short := life < 2*time.Duration(window)
	message := "OpenBao gave a token for " + span(life)
	if short {
		message += fmt.Sprintf(", which is less than twice auth.loginBeforeTokenExpiry (%s): the provider asks for another all the time, and works for less than that window when OpenBao takes no logins", window)
	}
	const longer = "raise token_ttl (and token_max_ttl) of the role well above twice auth.loginBeforeTokenExpiry, or lower that field"
	switch {
	case uses > 0:
		next := "set token_num_uses to 0 on the role"
		if short {
			next += "; and " + longer
		}
		return failed(reasonTokenUses, fmt.Sprintf("%s; and it ends after %s: the provider makes one for each call, so that calls fail whenever the uses are up", message, count(uses, "request")), next)
	case short:
		return warning(reasonTokenShort, message, longer)
	}
	return passed(message)
}

// withoutPaths takes the paths of the credential's files out of a finding. A
// file's error names its field too.
func (e *exam) withoutPaths(f finding) finding {
	for _, file := range credentialFiles(e.config.Auth) {
		f.message = strings.ReplaceAll(f.message, " "+file.path, "")
		f.nextStep = strings.ReplaceAll(f.nextStep, " "+file.path, "")
	}
	return f
}
