package backend_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/backend"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func open(t *testing.T, c *config.Config, o backend.Options) *backend.Backend {
	t.Helper()
	b, err := backend.Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// observer notes what it is told.
type observer struct {
	mu   sync.Mutex
	told []string
}

func (o *observer) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, what)
}

func (o *observer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.told, ", ")
}

func (o *observer) RequestDone(_ context.Context, d openbao.Done) {
	o.note(string(d.Operation) + " " + d.Status)
}
func (o *observer) LoginDone(status string)    { o.note("login " + status) }
func (o *observer) RenewalDone(status string)  { o.note("renewal " + status) }
func (o *observer) RecoveryDone(status string) { o.note("recovery " + status) }

// Opening reads no credential, not even whether there is one, and sends nothing.
func TestOpenUsesNothing(t *testing.T) {
	for _, method := range []string{"jwt", "cert"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t) // its directory holds no credential
			c := w.jwt()
			if method == "cert" {
				c = w.cert()
			}
			told := &observer{}
			var log bytes.Buffer
			b := open(t, c, backend.Options{Requests: told, Auth: told, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if b.Login.Method() != method {
				t.Errorf("the method is %q", b.Login.Method())
			}
			if b.Conn.Timeout() != 3*time.Second {
				t.Errorf("the timeout is %v", b.Conn.Timeout())
			}
			if err := b.Login.Check(); err == nil || !strings.Contains(err.Error(), "does not exist") {
				t.Errorf("a check without a credential: %v", err)
			}
			if n := w.dials.Load(); n != 0 || len(w.requests()) != 0 || told.String() != "" || log.Len() != 0 {
				t.Errorf("%d connections, requests %v, told %q, logged %q", n, w.requests(), told, log.String())
			}
		})
	}
}

// The whole way under each method: what arrives at OpenBao is what the
// configuration says.
func TestTheWay(t *testing.T) {
	t.Run("jwt", func(t *testing.T) {
		w := newWorld(t)
		w.writeJWT(nil)
		told := &observer{}
		b := open(t, w.jwt(), backend.Options{Requests: told, Auth: told})
		if _, ok := b.Login.(*auth.JWT); !ok {
			t.Errorf("the login is a %T", b.Login)
		}
		if err := b.Login.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
		if b.CertificateTTL() != nil {
			t.Error("a JWT has a client certificate")
		}
		if disabled, err := b.Transit.ReadUpsertDisabled(t.Context()); err != nil || !disabled {
			t.Fatalf("%v, %v", disabled, err)
		}
		list := w.requests()
		jwt, err := os.ReadFile(w.file("jwt"))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 2 || list[0].path != "/v1/auth/jwt-kms/login" || list[0].body["role"] != "kms-role" || list[0].body["jwt"] != string(jwt) ||
			list[1].path != "/v1/transit/kms/config/keys" || list[1].token != "hvs.one" || list[1].certificate {
			t.Errorf("arrived: %+v", list)
		}
		for _, s := range list {
			if s.namespace != "team" {
				t.Errorf("%s in namespace %q", s.path, s.namespace)
			}
		}
		if told.String() != "jwt_login ok, login ok, transit_disable_upsert_read ok" {
			t.Errorf("told %q", told)
		}
	})
	t.Run("cert", func(t *testing.T) {
		w := newWorld(t)
		own := issue(t, &w.ca, 24*time.Hour)
		w.write("tls.crt", own.certPEM(), 0o644)
		w.write("tls.key", own.keyPEM(t), 0o600)
		var log bytes.Buffer
		told := &observer{}
		b := open(t, w.cert(), backend.Options{Requests: told, Auth: told, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if _, ok := b.Login.(*auth.Cert); !ok {
			t.Errorf("the login is a %T", b.Login)
		}
		if err := b.Login.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
		ttl := b.CertificateTTL()
		if left, known := ttl(); known || left != 0 {
			t.Errorf("before the first login the certificate ends in %v, %v", left, known)
		}
		if disabled, err := b.Transit.ReadUpsertDisabled(t.Context()); err != nil || !disabled {
			t.Fatalf("%v, %v", disabled, err)
		}
		list := w.requests()
		if len(list) != 2 || list[0].path != "/v1/auth/cert-kms/login" || list[0].body["name"] != "cert-role" || !list[0].certificate ||
			list[1].path != "/v1/transit/kms/config/keys" || list[1].token != "hvs.one" || list[1].certificate {
			t.Errorf("arrived: %+v", list)
		}
		if left, known := ttl(); !known || left < 23*time.Hour || left > 24*time.Hour {
			t.Errorf("the certificate ends in %v, %v", left, known)
		}
		// It ends before auth.cert.minRemainingTtl.
		if !strings.Contains(log.String(), "auth.cert.minRemainingTtl (48h0m0s)") {
			t.Errorf("logged %q", log.String())
		}
		if told.String() != "cert_login ok, login ok, transit_disable_upsert_read ok" {
			t.Errorf("told %q", told)
		}
	})
}

// A token is renewed inside auth.loginBeforeTokenExpiry of its end, for
// auth.tokenRenewalIncrement.
func TestRenewalAsConfigured(t *testing.T) {
	for lease, renewed := range map[int]bool{2: true, 3600: false} {
		w := newWorld(t)
		w.lease = lease
		w.writeJWT(nil)
		c := w.jwt()
		c.Auth.LoginBeforeExpiry = config.Duration(1500 * time.Millisecond)
		b := open(t, c, backend.Options{})
		use := func() {
			t.Helper()
			if _, err := b.Session.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		use()
		use()
		if !renewed {
			if list := w.requests(); len(list) != 1 {
				t.Errorf("a token of an hour led to %d requests", len(list))
			}
			continue
		}
		deadline := time.Now().Add(30 * time.Second)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for len(w.requests()) < 2 {
			if time.Now().After(deadline) {
				t.Fatal("the token was never renewed")
			}
			<-ticker.C
			use()
		}
		if s := w.requests()[1]; s.path != "/v1/auth/token/renew-self" || s.body["increment"] != 1200.0 {
			t.Errorf("asked %q for %v", s.path, s.body["increment"])
		}
	}
}

// The local checks of a JWT are those that the configuration asks for.
func TestJWTChecksAsConfigured(t *testing.T) {
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, c := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"good":                   {nil, ""},
		"another issuer":         {map[string]any{"iss": "x"}, "claim iss"},
		"another audience":       {map[string]any{"aud": "x"}, "claim aud"},
		"another subject":        {map[string]any{"sub": "x"}, "claim sub"},
		"too little left":        {map[string]any{"exp": at(9 * time.Minute)}, "auth.jwt.minRemainingTtl"},
		"enough left":            {map[string]any{"exp": at(11 * time.Minute)}, ""},
		"from now, in leeway":    {map[string]any{"nbf": at(15 * time.Second)}, ""},
		"from now, after leeway": {map[string]any{"nbf": at(25 * time.Second)}, "claim nbf"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.writeJWT(c.claims)
			err := open(t, w.jwt(), backend.Options{}).Login.Check()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check: %v, want %q", err, c.want)
			}
			if len(w.requests()) != 0 {
				t.Error("a check sent something")
			}
		})
	}
}

// Errors name the field, and neither the mount nor the key.
func TestOpenErrors(t *testing.T) {
	w := newWorld(t)
	w.write("empty", nil, 0o644)
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"no CA file":       {func(c *config.Config) { c.OpenBao.CACertFile = w.file("gone") }, "openbao.caCertFile: "},
		"an empty CA file": {func(c *config.Config) { c.OpenBao.CACertFile = w.file("empty") }, "openbao.caCertFile: no certificate in it"},
		"plain HTTP":       {func(c *config.Config) { c.OpenBao.Address = "http://127.0.0.1:1" }, "openbao.address: plain HTTP is refused"},
		"no server name":   {func(c *config.Config) { c.OpenBao.TLSServerName = "" }, "openbao.tlsServerName: "},
		"no timeout":       {func(c *config.Config) { c.OpenBao.Timeout = 0 }, "openbao.timeout: "},
		"a bad key name":   {func(c *config.Config) { c.Transit.KeyName = "cluster-key/x" }, "transit.keyName: "},
		"a bad mount":      {func(c *config.Config) { c.Transit.MountPath = "transit/../kms" }, "transit.mountPath"},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := w.jwt()
			c.change(configuration)
			b, err := backend.Open(configuration, backend.Options{})
			if err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Open = %v, %v, want %q", b, err, c.want)
			}
			for _, secret := range []string{"cluster-key", "kms/", "/kms"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error %q holds %q", err, secret)
				}
			}
		})
	}
	plain := w.jwt()
	plain.OpenBao.Address = "http://127.0.0.1:1"
	open(t, plain, backend.Options{AllowPlainHTTP: true})
}
