package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

const (
	canaryToken = "hvs.CANARY-token"
	canaryMount = "auth/canary-mount"
	canaryRole  = "canary-role"
	canaryClaim = "canary-claim"
)

func assertClean(t *testing.T, text string) {
	t.Helper()
	for _, canary := range []string{"canary", "eyj", "/v1/"} {
		if strings.Contains(strings.ToLower(text), canary) {
			t.Errorf("%q holds %q", text, canary)
		}
	}
}

func assertFault(t *testing.T, err error, want fault.Cause, fragment string) {
	t.Helper()
	if got := fault.CauseOf(err); got != want {
		t.Errorf("cause is %q (%v), want %q", got.Text(), err, want.Text())
	}
	if err == nil || !strings.Contains(err.Error(), fragment) {
		t.Errorf("error is %v, want %q in it", err, fragment)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		assertClean(t, e.Error())
	}
}

// unsigned makes a JWT with an arbitrary signature: only OpenBao verifies it.
func unsigned(alg, claims string) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"`+alg+`"}`)) + "." + enc.EncodeToString([]byte(claims)) + "." + enc.EncodeToString([]byte("signature"))
}

func claims(t testing.TB, m map[string]any) string {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestClaimLimits(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	o := JWTOptions{MinRemaining: 2 * time.Minute, Leeway: 30 * time.Second}
	lax := JWTOptions{Leeway: 30 * time.Second}
	strict := JWTOptions{MinRemaining: time.Minute, Issuer: "https://issuer", Audience: "bao", Subject: "node-1"}
	long := at(time.Hour)
	for name, c := range map[string]struct {
		o      JWTOptions
		claims map[string]any
		want   string // empty if accepted
	}{
		"exp above the minimum":     {o, map[string]any{"exp": at(121 * time.Second)}, ""},
		"exp at the minimum":        {o, map[string]any{"exp": at(120 * time.Second)}, ""},
		"exp below the minimum":     {o, map[string]any{"exp": at(119 * time.Second)}, "auth.jwt.minRemainingTtl"},
		"exp is now":                {o, map[string]any{"exp": at(0)}, "auth.jwt.minRemainingTtl"},
		"exp past the leeway":       {o, map[string]any{"exp": at(-31 * time.Second)}, "claim exp: it has expired"},
		"no minimum, in the leeway": {lax, map[string]any{"exp": at(-29 * time.Second)}, ""},
		"no minimum, at the leeway": {lax, map[string]any{"exp": at(-30 * time.Second)}, ""},
		"no minimum, past it":       {lax, map[string]any{"exp": at(-31 * time.Second)}, "claim exp: it has expired"},
		"no exp":                    {o, map[string]any{}, "claim exp is missing"},
		"exp null":                  {o, map[string]any{"exp": nil}, "claim exp is missing"},
		"exp is text":               {o, map[string]any{"exp": "canary"}, "malformed"},
		"exp is huge":               {o, map[string]any{"exp": 1e300}, "malformed"},
		"nbf in the leeway":         {o, map[string]any{"exp": long, "nbf": at(29 * time.Second)}, ""},
		"nbf at the leeway":         {o, map[string]any{"exp": long, "nbf": at(30 * time.Second)}, ""},
		"nbf past the leeway":       {o, map[string]any{"exp": long, "nbf": at(31 * time.Second)}, "claim nbf"},
		"iat in the leeway":         {o, map[string]any{"exp": long, "iat": at(29 * time.Second)}, ""},
		"iat at the leeway":         {o, map[string]any{"exp": long, "iat": at(30 * time.Second)}, ""},
		"iat past the leeway":       {o, map[string]any{"exp": long, "iat": at(31 * time.Second)}, "claim iat"},
		"all as configured":         {strict, map[string]any{"exp": long, "iss": "https://issuer", "aud": "bao", "sub": "node-1"}, ""},
		"one of several audiences":  {strict, map[string]any{"exp": long, "iss": "https://issuer", "aud": []string{"x", "bao"}, "sub": "node-1"}, ""},
		"another issuer":            {strict, map[string]any{"exp": long, "iss": canaryClaim, "aud": "bao", "sub": "node-1"}, "claim iss differs from auth.jwt.expectedIssuer: correct the one that is wrong (cut -d. -f2 FILE | tr '_-' '/+' | base64 -d 2>/dev/null shows its claims)"},
		"no issuer":                 {strict, map[string]any{"exp": long, "aud": "bao", "sub": "node-1"}, "claim iss"},
		"another audience":          {strict, map[string]any{"exp": long, "iss": "https://issuer", "aud": canaryClaim, "sub": "node-1"}, "claim aud"},
		"other audiences":           {strict, map[string]any{"exp": long, "iss": "https://issuer", "aud": []string{canaryClaim}, "sub": "node-1"}, "claim aud"},
		"no audience":               {strict, map[string]any{"exp": long, "iss": "https://issuer", "sub": "node-1"}, "claim aud"},
		"another subject":           {strict, map[string]any{"exp": long, "iss": "https://issuer", "aud": "bao", "sub": canaryClaim}, "claim sub"},
		"audience of another type":  {strict, map[string]any{"exp": long, "iss": "https://issuer", "aud": 1, "sub": "node-1"}, "malformed"},
		"others, where not asked":   {o, map[string]any{"exp": long, "iss": canaryClaim, "aud": canaryClaim, "sub": canaryClaim}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkJWT(unsigned("RS256", claims(t, c.claims)), c.o, now)
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			assertFault(t, err, fault.LoginRejected, c.want)
		})
	}
}

func TestJWTForms(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	good := `{"exp":1800003600}`
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"} {
		if err := checkJWT(unsigned(alg, good), JWTOptions{}, now); err != nil {
			t.Errorf("%s is refused: %v", alg, err)
		}
	}
	for _, alg := range []string{"none", "None", "", "HS256", "HS384", "HS512", "canary"} {
		assertFault(t, checkJWT(unsigned(alg, good), JWTOptions{}, now), fault.LoginRejected, "check the login JWT")
	}
	assertFault(t, checkJWT(unsigned("none", good), JWTOptions{}, now), fault.LoginRejected, "signature algorithm")
	for _, token := range []string{
		"canary", "a.b", "a.b.c", "eyJ.eyJ.eyJ", unsigned("RS256", good) + ".x",
		"{" + good + "}", strings.Repeat("canary", 1000),
	} {
		assertFault(t, checkJWT(token, JWTOptions{}, now), fault.LoginRejected, "not a signed JWT")
	}
	for _, c := range []string{"", "canary", "[]", "1", `{"exp":1800003600`, `{"exp":1800003600}}`} {
		assertFault(t, checkJWT(unsigned("RS256", c), JWTOptions{}, now), fault.LoginRejected, "malformed")
	}
}

func FuzzCheckJWT(f *testing.F) {
	f.Add(unsigned("RS256", `{"exp":1800003600,"aud":["a"],"iss":"i","sub":"s"}`))
	f.Add(unsigned("none", `{"exp":1}`))
	f.Add("a.b.c")
	f.Add("")
	o := JWTOptions{MinRemaining: time.Minute, Leeway: time.Second, Audience: "a", Issuer: "i", Subject: "s"}
	f.Fuzz(func(t *testing.T, token string) {
		err := checkJWT(token, o, time.Unix(1_800_000_000, 0))
		if err != nil && (fault.CauseOf(err) != fault.LoginRejected || len(err.Error()) > 300) {
			t.Errorf("unexpected error %q", err)
		}
	})
}

// server starts an OpenBao that answers with handler, and returns a connection.
func server(t *testing.T, handler http.HandlerFunc) *openbao.Conn {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	conn, err := openbao.New(openbao.Options{Address: s.URL, AllowPlainHTTP: true, Timeout: 10 * time.Second, Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func writeJWT(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func goodJWT(t *testing.T, id string) string {
	t.Helper()
	return unsigned("ES256", claims(t, map[string]any{"exp": time.Now().Add(time.Hour).Unix(), "jti": id}))
}

func TestJWTLogin(t *testing.T) {
	var seen struct{ Role, JWT string }
	var path, namespace string
	conn := server(t, func(w http.ResponseWriter, r *http.Request) {
		path, namespace = r.URL.Path, r.Header.Get("X-Vault-Namespace")
		if err := json.NewDecoder(r.Body).Decode(&seen); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"auth":{"client_token":"`+canaryToken+`","lease_duration":3600,"renewable":true,"num_uses":7}}`)
	})
	file := filepath.Join(t.TempDir(), "jwt")
	login := NewJWT(conn, JWTOptions{MountPath: canaryMount, Role: canaryRole, File: file, MinRemaining: time.Minute})

	// The file is read anew for each login, white space around it is dropped.
	for _, id := range []string{"one", "two"} {
		token := goodJWT(t, id)
		writeJWT(t, file, "\n "+token+"\r\n", 0o640)
		grant, err := login.Login(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if grant.Token.Reveal() != canaryToken || grant.TTL != time.Hour || !grant.Renewable || grant.NumUses != 7 {
			t.Errorf("granted %+v", grant)
		}
		if seen.JWT != token || seen.Role != canaryRole || path != "/v1/"+canaryMount+"/login" || namespace != "team" {
			t.Errorf("the server saw %+v at %q in %q", seen, path, namespace)
		}
		assertClean(t, fmt.Sprintf("%v %+v %#v", grant, grant, grant))
	}
}

func TestJWTLocalFailuresReachNobody(t *testing.T) {
	var requests atomic.Int32
	conn := server(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	good := goodJWT(t, "x")
	dir := t.TempDir()
	path := func(name, content string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		writeJWT(t, p, content, mode)
		return p
	}
	target := path("target", good, 0o600)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	foreign := path("foreign", good, 0o600)
	wantForeign := ""
	if os.Geteuid() == 0 {
		if err := os.Chown(foreign, 12345, -1); err != nil {
			t.Fatal(err)
		}
		wantForeign = "is owned by user 12345"
	}
	for name, c := range map[string]struct{ file, want string }{
		"missing":           {filepath.Join(dir, "gone"), "does not exist"},
		"no path":           {"", "no path is given"},
		"relative":          {"jwt", "relative"},
		"link":              {link, "symbolic link"},
		"directory":         {dir, "not a regular file"},
		"readable by all":   {path("other", good, 0o604), "chmod 0600"},
		"writable by group": {path("group", good, 0o660), "chmod 0640"},
		"owned by another":  {foreign, wantForeign},
		"empty":             {path("empty", "", 0o600), "the file is empty"},
		"blank":             {path("blank", " \n", 0o600), "the file is empty"},
		"too large":         {path("large", strings.Repeat("x", maxJWT+1), 0o600), "larger than 65536 bytes"},
		"largest":           {path("largest", strings.Repeat("x", maxJWT), 0o600), "not a signed JWT"},
		"expired":           {path("expired", unsigned("RS256", `{"exp":1}`), 0o600), "claim exp: it has expired"},
		"none":              {path("none", unsigned("none", `{"exp":9999999999}`), 0o600), "signature algorithm"},
	} {
		if name == "owned by another" && c.want == "" {
			continue // only root can make such a file
		}
		login := NewJWT(conn, JWTOptions{MountPath: canaryMount, Role: canaryRole, File: c.file})
		_, err := login.Login(t.Context())
		assertFault(t, err, fault.LoginRejected, c.want)
		assertFault(t, login.Check(), fault.LoginRejected, c.want)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d logins reached OpenBao", n)
	}
}

func TestJWTAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jwt")
	writeJWT(t, file, goodJWT(t, "x"), 0o600)
	for body, want := range map[string]string{
		`{}`:                                 "holds no token",
		``:                                   "log in to OpenBao",
		`{"auth":{}}`:                        "holds no token",
		`{"auth":null}`:                      "holds no token",
		`{"data":{"id":"canary"}}`:           "holds no token",
		`{"auth":{"client_token":"canary"}}`: "no end",
		`{"auth":{"client_token":"canary","lease_duration":0}}`:           "no end",
		`{"auth":{"client_token":"canary","lease_duration":-1}}`:          "no end",
		`{"auth":{"client_token":"canary\nx","lease_duration":60}}`:       "cannot be sent",
		`{"auth":{"client_token":"canary é","lease_duration":60}}`:        "cannot be sent",
		`{"auth":{"client_token":"canary","lease_duration":"sometimes"}}`: "library understands",
		`{"auth":{"client_token":"canary","lease_duration":60}`:           "library understands",
	} {
		conn := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := NewJWT(conn, JWTOptions{MountPath: canaryMount, Role: canaryRole, File: file}).Login(t.Context())
		assertFault(t, err, fault.Unavailable, want)
	}
	conn := server(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"auth":{"client_token":"t","lease_duration":9223372036854775807}}`)
	})
	grant, err := NewJWT(conn, JWTOptions{MountPath: canaryMount, Role: canaryRole, File: file}).Login(t.Context())
	if err != nil || grant.TTL != maxTTL*time.Second {
		t.Errorf("an endless token: %v, %v", grant.TTL, err)
	}
	for uses, want := range map[string]int{"0": 0, "12": 12, "-3": 0, `"many"`: 0, "null": 0} {
		conn := server(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"auth":{"client_token":"t","lease_duration":60,"num_uses":`+uses+`}}`)
		})
		grant, err := NewJWT(conn, JWTOptions{MountPath: canaryMount, Role: canaryRole, File: file}).Login(t.Context())
		if err != nil || grant.NumUses != want || grant.Token.Reveal() != "t" {
			t.Errorf("num_uses %s: %d uses, %v", uses, grant.NumUses, err)
		}
	}
	conn = server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"errors":["error validating token: canary"]}`)
	})
	_, err = NewJWT(conn, JWTOptions{MountPath: canaryMount, Role: canaryRole, File: file}).Login(t.Context())
	assertFault(t, err, fault.LoginRejected, "auth.jwt.role")
}
