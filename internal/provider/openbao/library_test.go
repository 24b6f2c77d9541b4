package openbao

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// login is a request as package auth makes it.
func login(ctx context.Context, client *api.Client) (*api.Secret, error) {
	return client.Logical().WriteWithContext(ctx, canaryMount+"/login", map[string]any{"jwt": "CANARY.jwt.x"})
}

func TestUse(t *testing.T) {
	var path, body, namespace string
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		path, body, namespace = r.URL.Path, string(b), r.Header.Get("X-Vault-Namespace")
		_, _ = io.WriteString(w, `{"auth":{"client_token":"t","lease_duration":60}}`)
	})
	o.Namespace = "team"
	watch := &observed{}
	o.Observer = watch
	answer, err := open(t, o).Use(t.Context(), JWTLogin, login)
	if err != nil || answer.Auth.ClientToken != "t" || answer.Auth.LeaseDuration != 60 {
		t.Fatalf("Use: %+v, %v", answer, err)
	}
	if path != "/v1/"+canaryMount+"/login" || body != `{"jwt":"CANARY.jwt.x"}` || namespace != "team" {
		t.Errorf("the server saw %q %q %q", path, body, namespace)
	}
	if list := strings.Join(watch.list, ","); list != "jwt_login ok" {
		t.Errorf("observed %q", list)
	}
}

// Neither the library nor net/http takes anything from the environment.
func TestEnvironmentHasNoEffect(t *testing.T) {
	var stray atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stray.Add(1) }))
	defer other.Close()
	for _, prefix := range []string{"BAO_", "VAULT_"} {
		for name, value := range map[string]string{
			"ADDR": other.URL, "AGENT_ADDR": other.URL, "PROXY_ADDR": other.URL, "HTTP_PROXY": other.URL,
			"TOKEN": "env-token", "NAMESPACE": "env-namespace", "SKIP_VERIFY": "true", "TLS_SERVER_NAME": "env.test",
			"CACERT": "/nonexistent", "CLIENT_TIMEOUT": "1ns", "MAX_RETRIES": "5", "RATE_LIMIT": "0.0001:1", "WRAP_TTL": "1h",
		} {
			t.Setenv(prefix+name, value)
		}
	}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy"} {
		t.Setenv(name, other.URL)
	}
	var requests atomic.Int32
	var seen http.Header
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		seen = r.Header.Clone()
		_, _ = io.WriteString(w, `{"auth":{"client_token":"t"}}`)
	}))
	for range 3 {
		if _, err := c.Use(t.Context(), JWTLogin, login); err != nil {
			t.Fatalf("Use: %v", err)
		}
	}
	for _, name := range []string{"X-Vault-Token", "X-Vault-Namespace", "X-Vault-Wrap-Ttl"} {
		if v, ok := seen[name]; ok {
			t.Errorf("the login carries %s %q", name, v)
		}
	}
	if _, err := call(t, c); err != nil {
		t.Fatalf("Call: %v", err)
	}
	if got := seen.Get("X-Vault-Token"); got != canaryToken {
		t.Errorf("the call carries the token %q", got)
	}
	if requests.Load() != 4 || stray.Load() != 0 {
		t.Errorf("%d requests arrived and %d went astray, want 4 and 0", requests.Load(), stray.Load())
	}
}

func TestUseFailures(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		cause   fault.Cause
		text    string
	}{
		"400": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"errors":["`+canaryText+`"]}`)
		}, fault.LoginRejected, "auth.jwt.role"},
		"429": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		}, fault.RateLimited, "quota"},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, fault.Unavailable, "HTTP 500"},
		"503": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, fault.Sealed, "unseal"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, fault.Unavailable, "forward requests"},
		"oversized": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", 5<<20))
		}, fault.Unavailable, "larger than 262144 bytes"},
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>"+canaryText)
		}, fault.Unavailable, "library understands"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"auth":{"client_token":"CANARY`)
		}, fault.Unavailable, "library understands"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{`)
		}, fault.ConnectionFailed, "the connection broke"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			o := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				c.handler(w, r)
			})
			watch := &observed{}
			o.Observer = watch
			answer, err := open(t, o).Use(t.Context(), JWTLogin, login)
			if answer != nil {
				t.Errorf("there is an answer: %+v", answer)
			}
			assertFault(t, err, c.cause, c.text)
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests were sent, want 1", n)
			}
			if want := "jwt_login " + string(c.cause.Class()); strings.Join(watch.list, ",") != want {
				t.Errorf("observed %q, want %q", watch.list, want)
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

func TestUseDeadlines(t *testing.T) {
	held := func(_ http.ResponseWriter, r *http.Request) {
		// Only with the body read does the server see the connection close.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		// An answer now would race with the end of the client's connection.
		panic(http.ErrAbortHandler)
	}

	o := serve(t, held)
	o.Timeout = 50 * time.Millisecond
	_, err := open(t, o).Use(t.Context(), JWTLogin, login)
	assertFault(t, err, fault.TimedOut, "openbao.timeout (50ms)")

	// A caller's deadline may lie beyond Timeout.
	o = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(1200 * time.Millisecond)
		_, _ = io.WriteString(w, `{"auth":{"client_token":"t"}}`)
	})
	o.Timeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := open(t, o).Use(ctx, JWTLogin, login); err != nil {
		t.Errorf("a login slower than openbao.timeout failed: %v", err)
	}

	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = open(t, serve(t, held)).Use(ctx, JWTLogin, login)
	assertFault(t, err, fault.DeadlineExceeded, "caller's deadline")

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_, err = open(t, serve(t, held)).Use(ctx, JWTLogin, login)
	assertFault(t, err, fault.Canceled, "cancelled")
}

func TestUseDropsForeignErrors(t *testing.T) {
	c := open(t, serve(t, nil))
	_, err := c.Use(t.Context(), CapabilitiesSelf, func(context.Context, *api.Client) (*api.Secret, error) {
		return nil, errors.New(canaryText)
	})
	assertFault(t, err, fault.Unavailable, "read the token's capabilities")
	_, err = c.Use(t.Context(), JWTLogin, func(_ context.Context, client *api.Client) (*api.Secret, error) {
		return client.Logical().WriteWithContext(context.Background(), canaryMount, nil)
	})
	assertFault(t, err, fault.Unavailable, "log in to OpenBao")
}

func TestUseClientIsTheCallersOwn(t *testing.T) {
	c := open(t, serve(t, nil))
	for i := range 2 {
		_, err := c.Use(t.Context(), TokenRenewSelf, func(_ context.Context, client *api.Client) (*api.Secret, error) {
			if token := client.Token(); token != "" {
				t.Errorf("use %d starts with the token %q", i, token)
			}
			client.SetToken(fmt.Sprint(i))
			client.SetNamespace("other")
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if ns := c.client.Namespace(); ns != "" {
		t.Errorf("the shared client has got the namespace %q", ns)
	}
}
