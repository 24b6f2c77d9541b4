package observe

import (
	"encoding/base64"
	"strings"
	"testing"
)

// A credential is found however its JSON is laid out and whatever stands before it.
func TestCredentialsAreFoundInProse(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	payload := encode([]byte(`{"sub":"canary"}`))
	credentials := map[string]string{
		"the URL of a request":      "https://bao.example:8200/v1/transit/keys/canary",
		"a URL without TLS":         "http://[::1]:8200/base/v1/canary",
		"a URL in capitals":         "HTTPS://BAO/v1/canary",
		"a path":                    "/v1/transit/keys/canary",
		"a host's path":             "bao.example:8200/v1/transit/keys/canary",
		"a token":                   newTokenCanary,
		"the head of a JWT":         jwtCanary,
		"a JWT with no payload":     encode([]byte(`{ "alg":"ES256"}`)) + "..c2lnbmF0dXJl",
		"an encrypted JWT":          encode([]byte("{\n\"alg\":\"dir\"}")) + "..aXY.dGV4dA.dGFn",
		"a JWT without a signature": encode([]byte(`{ "alg":"none"}`)) + "." + payload + ".",
	}
	for name, space := range map[string]string{"nothing": "", "a space": " ", "spaces": "  ", "a line": "\n", "a line and spaces": "\n  ", "a DOS line": "\r\n", "a tab": "\t"} {
		credentials["a JWT with "+name+" after the brace"] = encode([]byte("{"+space+`"alg":"ES256"}`)) + "." + payload + ".c2lnbmF0dXJl"
	}
	credentials["a JWT in a query"] = "Bearer%20" + encode([]byte(`{ "alg":"ES256"}`)) + "." + payload + ".c2lnbmF0dXJl"
	for name, credential := range credentials {
		for _, before := range []string{"", "refused: ", "jwt=", "a[", "a<", "a`", `a"`, "a'", "a(", "a:", "a,", "a{", "a|", "a>", "a\n"} {
			l, out := newLogger(t, "info", "json")
			l.Info("a.b", "error", before+credential+" was refused")
			if !strings.HasSuffix(out.String(), `"error":"`+redacted+`"}`+"\n") {
				t.Errorf("%s behind %q: printed\n%s", name, before, out)
			}
		}
	}
}

// Prose that only resembles a credential is printed.
func TestProseIsPrinted(t *testing.T) {
	for _, text := range []string{
		"the framework's network. A new key. See the log...",
		"keyAlgorithm is not set. Set it. Then restart.",
		"ewr1-openbao.prod.example.com", "eyrie-prod-1.example.com:8200", "https://ewr1-openbao.prod.example.com:8200",
		"/etc/openbao-kms/v1/config.yaml", "./v1/config.yaml", "../v1/config.yaml", "/etc/a-b_c.d/v1/x", "/srv/~/v1/x",
		"see https://example.com/docs and /etc/kms/v1/config.yaml",
		"TLS 1.2 or newer", "decrypt: OpenBao refused (HTTP 404)",
	} {
		if !isProse(text) {
			t.Errorf("%q is taken for a credential", text)
		}
	}
}
