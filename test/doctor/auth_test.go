package doctor

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// from is a moment as a claim of a JWT has it.
func from(d time.Duration) int64 { return time.Now().Add(d).Unix() }

// TestJWT breaks the JWT on this node: it must be found without a login.
func TestJWT(t *testing.T) {
	t.Parallel()
	shared := stacktest.Transit(t, stack.TransitOptions{Mount: mount, Key: key})
	for _, c := range []struct {
		name           string
		claims, fields map[string]any
		spoil          func(t *testing.T, file string)
		result         command.Result
		reason         string
		words          []string
	}{
		// The first, so that most of its minute is left when it is looked at.
		{name: "ends soon", claims: map[string]any{"exp": from(238 * time.Second)}, result: command.Warn, reason: "credential_expires_soon", words: []string{"the JWT ends in 3m", "auth.jwt.minRemainingTtl (2m)", "replace the file in auth.jwt.jwtFile"}},
		{name: "expired", claims: map[string]any{"exp": from(-time.Hour)}, words: []string{"auth.jwt.jwtFile: claim exp: it has expired", "replace the file auth.jwt.jwtFile"}},
		{name: "too short", claims: map[string]any{"exp": from(time.Minute)}, words: []string{"auth.jwt.minRemainingTtl"}},
		{name: "without an end", claims: map[string]any{"exp": nil}, words: []string{"claim exp is missing"}},
		{name: "not yet", claims: map[string]any{"nbf": from(time.Hour)}, words: []string{"claim nbf", "clock"}},
		{name: "of the future", claims: map[string]any{"iat": from(time.Hour)}, words: []string{"claim iat"}},
		{name: "of another issuer", fields: map[string]any{"auth.jwt.expectedIssuer": "https://another.stack.test"}, words: []string{"claim iss differs from auth.jwt.expectedIssuer"}},
		{name: "for another audience", fields: map[string]any{"auth.jwt.expectedAudience": "another"}, words: []string{"claim aud", "auth.jwt.expectedAudience", "base64 -d 2>/dev/null shows its claims"}},
		{name: "of another subject", fields: map[string]any{"auth.jwt.expectedSubject": "another"}, words: []string{"claim sub", "auth.jwt.expectedSubject"}},
		{name: "garbage", spoil: content("not a JWT at all, but long enough", 0o600), words: []string{"not a signed JWT", "check what writes auth.jwt.jwtFile"}},
		{name: "empty", spoil: content("\n", 0o600), words: []string{"the file is empty"}},
		{name: "for everybody to read", spoil: mode(0o644), words: []string{"the file in auth.jwt.jwtFile has mode 0644", "run chmod 0640 on it"}},
		{name: "of another user", spoil: owner(12345), words: []string{"auth.jwt.jwtFile belongs to user 12345", "run this command as the provider's user"}},
		{name: "missing", spoil: remove, words: []string{"auth.jwt.jwtFile does not exist; have the issuer write this node's JWT there"}},
		{name: "a link", spoil: link, words: []string{"auth.jwt.jwtFile is a symbolic link"}},
		{name: "a directory", spoil: func(t *testing.T, file string) { remove(t, file); must(t, os.Mkdir(file, 0o700)) }, words: []string{"not a regular file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{claims: c.claims, fields: c.fields})
			if c.spoil != nil {
				c.spoil(t, w.files.JWT)
			}
			before := logins(t, shared)
			r := examine(t, w)
			onlyFails(t, r, "auth.material")
			passes(t, r, "openbao.reachable", "clock.skew")
			if c.result == command.Warn {
				expect(t, r, "auth.material", c.result, c.reason, c.words...)
				passes(t, r, "auth.login", "auth.policy", "transit.key")
				return
			}
			expect(t, r, "auth.material", command.Fail, "credential_unusable", c.words...)
			skippedBecause(t, r, "auth.login", "auth.material")
			if sent := logins(t, shared) - before; sent != 0 {
				t.Errorf("%d logins were sent although the credential is unusable", sent)
			}
		})
	}
}

// logins is how many logins have reached a Transit.
func logins(t *testing.T, transit *stack.Transit) int {
	t.Helper()
	n, err := transit.Requests("/login")
	must(t, err)
	return n
}

func mode(m os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, file string) { t.Helper(); must(t, os.Chmod(file, m)) }
}

func owner(uid int) func(*testing.T, string) {
	return func(t *testing.T, file string) { t.Helper(); must(t, os.Chown(file, uid, -1)) }
}

func remove(t *testing.T, file string) { t.Helper(); must(t, os.Remove(file)) }

// link puts a link to the file in its place.
func link(t *testing.T, file string) {
	t.Helper()
	must(t, os.Rename(file, file+".real"))
	must(t, os.Symlink(file+".real", file))
}

// TestLoginRefused has a good credential that OpenBao does not take.
func TestLoginRefused(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, worldOptions{}).transit
	root := shared.Root()
	for _, c := range []struct {
		name           string
		claims, fields map[string]any
		spoil, repair  func(t *testing.T)
		words          []string
	}{
		{name: "another audience", claims: map[string]any{"aud": "another"}, words: []string{"OpenBao refused the JWT, the role or the auth mount", "(HTTP 400)", "auth.jwt.role"}},
		{name: "another role", fields: map[string]any{"auth.jwt.role": "nobody"}, words: []string{"(HTTP 400)", "run bao read on the role in auth.jwt.role"}},
		{name: "another mount", fields: map[string]any{"auth.jwt.mountPath": "auth/nowhere"}, words: []string{"(HTTP 403)", "run bao auth list (is a JWT method mounted at auth.jwt.mountPath, in openbao.namespace?)"}},
		{
			name: "the role is gone",
			spoil: func(t *testing.T) {
				must(t, root.Do(t.Context(), http.MethodDelete, stack.JWTMount+"/role/"+stack.JWTRole, nil, nil))
			},
			repair: func(t *testing.T) { must(t, shared.UpdateRole(t.Context(), nil)) },
			words:  []string{"the provider could not log in to OpenBao", "run bao read on the role in auth.jwt.role (is it there"},
		},
		{
			name: "another key signs",
			spoil: func(t *testing.T) {
				other, err := stack.NewIssuer()
				must(t, err)
				must(t, shared.TrustIssuers(t.Context(), other))
			},
			repair: func(t *testing.T) { must(t, shared.TrustIssuers(t.Context(), shared.Issuer())) },
			words:  []string{"OpenBao refused the JWT", "jwt_validation_pubkeys, or the discovery URL, must be of the key that signs this node's JWTs"},
		},
		{
			name: "a rate limit",
			spoil: func(t *testing.T) {
				must(t, shared.LimitRate(t.Context(), "doctor", stack.JWTMount, 0.001))
				login(t, shared)
			},
			repair: func(t *testing.T) { must(t, shared.UnlimitRate(t.Context(), "doctor")) },
			words:  []string{"limits the rate of requests", "(HTTP 429)", "raise the rate limit quota"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{claims: c.claims, fields: c.fields})
			if c.spoil != nil {
				c.spoil(t)
				defer c.repair(t)
			}
			r := examine(t, w)
			reason := "auth_failed"
			if c.name == "a rate limit" {
				reason = "openbao_rate_limited"
			}
			expect(t, r, "auth.login", command.Fail, reason, c.words...)
			onlyFails(t, r, "auth.login")
			passes(t, r, "auth.material")
			skippedBecause(t, r, "transit.key", "auth.login")
		})
	}
	onlyFails(t, examine(t, newNode(t, shared, worldOptions{})))
}

// TestToken has roles whose tokens do not do for long: a short one works all the same, one that ends by use does not.
func TestToken(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, worldOptions{}).transit
	for _, c := range []struct {
		name   string
		role   map[string]any
		reason string
		words  []string
	}{
		{"short", map[string]any{"token_ttl": "6m", "token_max_ttl": "6m"}, "token_short", []string{"a token for 6m, which is less than twice auth.loginBeforeTokenExpiry (5m)", "raise token_ttl"}},
		{"limited", map[string]any{"token_ttl": "1h", "token_max_ttl": "1h", "token_num_uses": 20}, "token_uses_limited", []string{"a token for 1h0m; and it ends after 20 requests", "set token_num_uses to 0 on the role"}},
		{"in order", map[string]any{"token_num_uses": 0}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, shared.UpdateRole(t.Context(), c.role))
			r := examine(t, newNode(t, shared, worldOptions{}))
			switch {
			case c.reason == "":
				passes(t, r, "auth.login", "auth.policy", "transit.roundtrip")
				onlyFails(t, r)
				return
			case c.name == "limited":
				expect(t, r, "auth.login", command.Fail, c.reason, c.words...)
				skippedBecause(t, r, "transit.roundtrip", "auth.login")
			default:
				expect(t, r, "auth.login", command.Warn, c.reason, c.words...)
				passes(t, r, "auth.policy", "transit.roundtrip")
			}
			onlyFails(t, r, "auth.login")
		})
	}
}

// login takes what a rate limit still allows.
func login(t *testing.T, transit *stack.Transit) {
	t.Helper()
	jwt, err := transit.MintJWT(nil)
	must(t, err)
	_, _ = transit.LoginJWT(t.Context(), jwt)
}

// TestCertificate is the other login method: its files, and what OpenBao says of them. No proxy can stand between here, so that
// openbao.tls warns of the end of the stack's certificate.
func TestCertificate(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, worldOptions{}).transit
	ca, stranger := stacktest.CA(t), stacktest.CA(t)
	must(t, shared.EnableCertLogin(t.Context(), ca))
	for _, c := range []struct {
		name   string
		ca     *stack.CA
		life   time.Duration
		fields map[string]any
		spoil  func(t *testing.T, p stack.Pair)
		id     string // the check that finds something; empty for none
		result command.Result
		reason string
		words  []string
	}{
		{name: "good", life: year, id: ""},
		{name: "ends soon", life: 3 * time.Hour, id: "auth.material", result: command.Warn, reason: "credential_expires_soon", words: []string{"ends in 3h", "auth.cert.minRemainingTtl (24h)", "replace the files"}},
		{name: "expired", life: -time.Hour, id: "auth.material", words: []string{"auth.cert.certificateFile: the certificate has expired"}},
		{name: "the key of another", life: year, spoil: func(t *testing.T, p stack.Pair) {
			other, err := ca.Issue("other", stack.CertRequest{})
			must(t, err)
			must(t, os.Rename(other.KeyFile, p.KeyFile))
		}, id: "auth.material", words: []string{"auth.cert.keyFile is not the key of"}},
		{name: "the key for everybody", life: year, spoil: func(t *testing.T, p stack.Pair) { mode(0o644)(t, p.KeyFile) }, id: "auth.material", words: []string{"the file in auth.cert.keyFile has mode 0644"}},
		{name: "no key", life: year, spoil: func(t *testing.T, p stack.Pair) { remove(t, p.KeyFile) }, id: "auth.material", words: []string{"the file in auth.cert.keyFile does not exist; have the issuer write the key"}},
		{name: "no certificate", life: year, spoil: func(t *testing.T, p stack.Pair) { remove(t, p.CertFile) }, id: "auth.material", words: []string{"the file in auth.cert.certificateFile does not exist; have the issuer write this node's client certificate"}},
		{name: "garbage", life: year, spoil: func(t *testing.T, p stack.Pair) { content("garbage", 0o600)(t, p.CertFile) }, id: "auth.material", words: []string{"auth.cert.certificateFile: no certificate in it"}},
		{name: "a stranger's", ca: stranger, life: year, id: "auth.login", reason: "auth_failed", words: []string{"could not log in to OpenBao", "(HTTP 400)", "auth.cert."}},
		{name: "another role", life: year, fields: map[string]any{"auth.cert.name": "nobody"}, id: "auth.login", reason: "auth_failed", words: []string{"could not log in to OpenBao", "the role"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ca == nil {
				c.ca = ca
			}
			pair, err := c.ca.Issue("client-"+filepath.Base(stacktest.Dir(t)), stack.CertRequest{CommonName: "node", Lifetime: c.life})
			must(t, err)
			if c.spoil != nil {
				c.spoil(t, pair)
			}
			fields := map[string]any{
				"auth.method": "cert", "auth.jwt.mountPath": nil, "auth.jwt.role": nil, "auth.jwt.jwtFile": nil,
				"auth.cert.mountPath": stack.CertMount, "auth.cert.name": stack.JWTRole,
				"auth.cert.certificateFile": pair.CertFile, "auth.cert.keyFile": pair.KeyFile,
			}
			maps.Copy(fields, c.fields)
			r := examine(t, newNode(t, shared, worldOptions{fields: fields, direct: true}))
			if c.id == "" {
				onlyFails(t, r)
				expect(t, r, "auth.material", command.Pass, "", "the client certificate is valid until ")
				passes(t, r, "auth.login", "auth.policy", "transit.roundtrip")
				return
			}
			if c.result == "" {
				c.result = command.Fail
			}
			if c.reason == "" {
				c.reason = "credential_unusable"
			}
			expect(t, r, c.id, c.result, c.reason, c.words...)
			onlyFails(t, r, c.id)
		})
	}
}
