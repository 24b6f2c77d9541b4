package openbao

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/baokms/baokms/internal/provider/fault"
)

// The table of design openbao, "what the server really answers", and what
// stands around an OpenBao.
func TestStatusFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		op     Operation
		status int
		text   string
		cause  fault.Cause
		detail string
	}{
		{"encrypt without the key", Encrypt, 400, "encryption key not found", fault.KeyMissing, "transit.keyName"},
		{"decrypt without the key", Decrypt, 400, "encryption key not found", fault.KeyMissing, "transit.keyName"},
		{"no key", MetadataRead, 404, "", fault.KeyMissing, "transit.keyName"},
		{"no mount", MetadataRead, 404, `no handler for route "canary/keys/canary". route entry not found.`, fault.KeyMissing, "transit.mountPath"},
		{"no mount for encrypt", Encrypt, 404, "no handler for route", fault.KeyMissing, "transit.mountPath"},
		{"no such setting", UpsertRead, 404, "", fault.KeyMissing, "must be a Transit mount"},
		{"wrong associated data", Decrypt, 400, "cipher: message authentication failed", fault.CiphertextRefused, "another key or cluster"},
		{"no prefix", Decrypt, 400, "invalid ciphertext: no prefix", fault.CiphertextRefused, "altered"},
		{"above latest", Decrypt, 400, "invalid ciphertext: version is too new", fault.CiphertextRefused, "restore OpenBao"},
		{"altered, older server", Decrypt, 400, "invalid ciphertext: unable to decrypt", fault.CiphertextRefused, "altered"},
		{"below the minimum", Decrypt, 400, "ciphertext or signature version is disallowed by policy (too old)", fault.CiphertextRefused, "min_decryption_version"},
		{"encrypt above latest", Encrypt, 400, "requested version for encryption is higher than the latest key version", fault.RequestRefused, "min_encryption_version"},
		{"encrypt below minimum", Encrypt, 400, "requested version for encryption is less than the minimum encryption key version", fault.RequestRefused, "min_encryption_version"},
		{"the ciphertext's texts on encrypt", Encrypt, 400, "invalid ciphertext: no prefix", fault.RequestRefused, "audit log"},
		{"other 400", Decrypt, 400, canaryText, fault.RequestRefused, "audit log"},
		{"405", Encrypt, 405, "unsupported operation", fault.RequestRefused, "audit log"},
		{"400 on a read", MetadataRead, 400, "encryption key not found", fault.RequestRefused, "audit log"},
		{"401", Encrypt, 401, "", fault.Unauthenticated, "HTTP 401"},
		{"no token", Decrypt, 403, "permission denied", fault.Unauthenticated, "HTTP 403"},
		{"policy", MetadataRead, 403, "1 error occurred:\n\t* permission denied\n\n", fault.Unauthenticated, "HTTP 403"},
		{"bad JWT", JWTLogin, 400, "error validating token: " + canaryText, fault.LoginRejected, "jwt_validation_pubkeys, or the discovery URL, must be of the key that signs this node's JWTs, and bound_issuer their iss"},
		{"unknown role", JWTLogin, 400, `role "canary" could not be found`, fault.LoginRejected, "auth.jwt.role"},
		{"login denied", JWTLogin, 403, "permission denied", fault.LoginRejected, "run bao auth list (is a JWT method mounted at auth.jwt.mountPath, in openbao.namespace?), then run bao read on the role in auth.jwt.role"},
		{"no login mount", JWTLogin, 404, "no handler for route", fault.LoginRejected, "auth.jwt.mountPath"},
		{"no certificate mount", CertLogin, 404, "no handler for route", fault.LoginRejected, "auth.cert.mountPath"},
		{"bad certificate", CertLogin, 400, "invalid certificate", fault.LoginRejected, "OpenBao refused the login: run bao read on the role in auth.cert.name"},
		{"certificate login denied", CertLogin, 403, "permission denied", fault.LoginRejected, "is a certificate method mounted at auth.cert.mountPath"},
		{"login of another kind refused", JWTLogin, 405, "unsupported operation", fault.LoginRejected, "auth.jwt.mountPath"},
		{"no such login path", CertLogin, 404, "", fault.LoginRejected, "auth.cert.mountPath"},
		{"renewal denied", TokenRenewSelf, 403, "permission denied", fault.Unauthenticated, "policy openbao"},
		{"not renewable", TokenRenewSelf, 400, "lease is not renewable", fault.RequestRefused, "audit log"},
		{"renewal in no namespace", TokenRenewSelf, 404, "no handler for route", fault.RequestRefused, "openbao.namespace"},
		{"capabilities of no path", CapabilitiesSelf, 404, "", fault.RequestRefused, "openbao.namespace"},
		{"capabilities denied", CapabilitiesSelf, 403, "permission denied", fault.Unauthenticated, "policy openbao"},
		{"408 of a load balancer", Encrypt, 408, "", fault.Unavailable, "load balancer"},
		{"412", Decrypt, 412, "", fault.RequestRefused, "audit log"},
		{"413", Encrypt, 413, "", fault.RequestRefused, "audit log"},
		{"standby without a leader", Encrypt, 500, "local node not active but active cluster node not found", fault.Unavailable, "OpenBao's log"},
		{"504", MetadataRead, 504, canaryText, fault.Unavailable, "OpenBao's log"},
		{"quota", Encrypt, 429, "request path \"canary\": rate limit quota exceeded", fault.RateLimited, "quota"},
		{"quota on login", JWTLogin, 429, "rate limit quota exceeded", fault.RateLimited, "quota"},
		{"quota that cannot be applied", Decrypt, 422, "no such quota", fault.RateLimited, "OpenBao's log"},
		{"sealed", Encrypt, 503, "Vault is sealed", fault.Sealed, "unseal"},
		{"sealed on login", JWTLogin, 503, "Vault is sealed", fault.Sealed, "unseal"},
		{"500", Encrypt, 500, canaryText, fault.Unavailable, "OpenBao's log"},
		{"502", Decrypt, 502, canaryText, fault.Unavailable, "OpenBao's log"},
		{"472 of a standby", Encrypt, 472, "", fault.RequestRefused, "audit log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests atomic.Int32
			watch := &observed{}
			o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.WriteHeader(c.status)
				text := ""
				if c.text != "" {
					text = `"` + strings.NewReplacer(`"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(c.text) + `"`
				}
				_, _ = io.WriteString(w, `{"errors":[`+text+`]}`)
			})
			o.Observer = watch
			conn := open(t, o)
			_, err := conn.Call(t.Context(), endpoint(t, conn, c.op), NewSecret(canaryToken), post())
			assertFault(t, err, c.cause, c.detail)
			// The words: what was being done, what is wrong, what to do next, the status.
			want := fmt.Sprintf("%s: %s: ", c.op.Words(), c.cause.Text())
			if text, end := err.Error(), fmt.Sprintf(" (HTTP %d)", c.status); !strings.HasPrefix(text, want) || !strings.HasSuffix(text, end) {
				t.Errorf("error is %q, want %q, a next step, and %q", text, want, end)
			}
			if got, want := strings.Join(watch.list, ","), string(c.op)+" "+string(c.cause.Class()); got != want {
				t.Errorf("observed %q, want %q", got, want)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests were sent, want 1", n)
			}
		})
	}
}

// A missing mount is told from a missing key, for what operators are told.
func TestNoMountIsTold(t *testing.T) {
	for _, c := range []struct {
		op   Operation
		body string
		want bool
	}{
		{MetadataRead, `{"errors":["no handler for route \"canary\". route entry not found."]}`, true},
		{UpsertRead, `{"errors":["no handler for route"]}`, true},
		{MetadataRead, `{"errors":[]}`, false},
		{JWTLogin, `{"errors":["no handler for route"]}`, false},
		{TokenRenewSelf, `{"errors":["no handler for route"]}`, false},
	} {
		err := exchange{op: c.op}.statusFailure(404, []byte(c.body))
		if got := errors.Is(err, ErrNoMount); got != c.want {
			t.Errorf("%s of %s: no mount is %v, want %v", c.op, c.body, got, c.want)
		}
	}
}

func TestErrorTextsOfOtherForms(t *testing.T) {
	for _, body := range []string{
		"", "null", "[]", `{"errors":null}`, `{"errors":"encryption key not found"}`, `{"errors":[1]}`,
		"<html>encryption key not found</html>", `{"errors":["encryption key not found"`,
	} {
		if cause, _ := classify(Encrypt, 400, []byte(body)); cause != fault.RequestRefused {
			t.Errorf("%q: cause %q, want %q", body, cause.Text(), fault.RequestRefused.Text())
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("transit_decrypt", 400, []byte(`{"errors":["cipher: message authentication failed"]}`))
	f.Add("jwt_login", 404, []byte(`{"errors":["no handler for route"]}`))
	f.Add("transit_metadata_read", 302, []byte(`<html>`))
	f.Add("", 0, []byte(nil))
	f.Fuzz(func(t *testing.T, op string, status int, body []byte) {
		cause, detail := classify(Operation(op), status, body)
		if cause == fault.Unknown || cause == fault.None || cause == fault.PolicyDenied {
			t.Errorf("cause %d for status %d", cause, status)
		}
		if detail == "" || len(detail) > 500 {
			t.Errorf("the detail of status %d is %q", status, detail)
		}
	})
}
