package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/transit"
)

// world is an OpenBao without a network, in synthetic time, that watches what
// must never happen. Its client is the real one: transit over a Session over a
// JWT file.
type world struct {
	t    *testing.T
	file string

	mu       sync.Mutex
	tokens   map[string]*life
	granted  int
	ttl      time.Duration
	maxTTL   time.Duration
	latency  time.Duration
	denied   map[string]bool // by operation
	refuse   int             // the status of every login, 0 to let them in
	sealed   bool
	hang     bool // logins get no answer
	noRenew  bool
	rejected map[string]time.Time // operation and token: when that was answered
	issuing  int                  // logins and renewals under way
	logins   []time.Time          // when each began
	renewals int
	lastFail time.Time // when a refused login was answered
	// recoveries are the starts of logins that replaced a rejected token.
	recoveries []time.Time
}

type life struct{ ends, most time.Time }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, file: filepath.Join(t.TempDir(), "jwt"),
		tokens: map[string]*life{}, denied: map[string]bool{}, rejected: map[string]time.Time{},
		ttl: time.Hour, maxTTL: 24 * time.Hour, latency: 2 * time.Millisecond,
	}
	w.writeJWT(time.Now().Add(1000 * time.Hour))
	return w
}

func (w *world) writeJWT(expiry time.Time) {
	w.t.Helper()
	enc := base64.RawURLEncoding.EncodeToString
	jwt := enc([]byte(`{"alg":"ES256"}`)) + "." + enc(fmt.Appendf(nil, `{"exp":%d}`, expiry.Unix())) + "." + enc([]byte("x"))
	if err := os.WriteFile(w.file, []byte(jwt), 0o600); err != nil {
		w.t.Error(err)
	}
}

// client returns the provider's way to this OpenBao.
func (w *world) client(window time.Duration) (*transit.Client, *auth.Session) {
	w.t.Helper()
	conn, err := openbao.New(openbao.Options{Address: "https://bao.test", Timeout: 2 * time.Second, RoundTripper: w})
	if err != nil {
		w.t.Fatal(err)
	}
	session := auth.NewSession(auth.Options{
		Login:  auth.NewJWT(conn, auth.JWTOptions{MountPath: "auth/jwt", Role: "r", File: w.file}),
		Window: window, RenewalIncrement: 2 * window, RequestTimeout: 2 * time.Second, Observer: w,
	})
	client, err := transit.New(conn, session, "transit", "k")
	if err != nil {
		w.t.Fatal(err)
	}
	return client, session
}

// binding is a snapshot's part.
type binding struct{}

func (binding) Version() int                 { return 1 }
func (binding) AssociatedDataBase64() string { return "e30=" }

func encrypt(ctx context.Context, c *transit.Client) error {
	_, err := c.Encrypt(ctx, binding{}, []byte("x"))
	return err
}

func decrypt(ctx context.Context, c *transit.Client) error {
	_, err := c.Decrypt(ctx, binding{}, []byte("vault:v1:eA=="))
	return err
}

func upsert(ctx context.Context, c *transit.Client) error {
	_, err := c.ReadUpsertDisabled(ctx)
	return err
}

func (w *world) LoginDone(string)   {}
func (w *world) RenewalDone(string) {}

// RecoveryDone checks that recoveries keep their distance. Only recoveries whose
// login succeeded count: a failed one goes on.
func (w *world) RecoveryDone(status string) {
	if status != openbao.StatusOK {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recoveries = append(w.recoveries, w.logins[len(w.logins)-1])
	delay := 5 * time.Second
	for i, at := range w.recoveries[1:] {
		since := at.Sub(w.recoveries[i])
		if since < delay {
			w.t.Errorf("recovery %d came %v after the one before, want %v", i+2, since, delay)
		}
		if delay = min(2*delay, 5*time.Minute); since >= 10*time.Minute {
			delay = 5 * time.Second
		}
	}
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]any
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body)
		r.Body.Close()
	}
	operation, token := operationOf(r.URL.Path), r.Header.Get("X-Vault-Token")
	w.mu.Lock()
	w.arrives(operation, token)
	latency := w.latency
	if w.hang && operation == "login" {
		latency = time.Hour
	}
	w.mu.Unlock()

	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		w.mu.Lock()
		w.leaves(operation)
		w.mu.Unlock()
		return nil, r.Context().Err()
	case <-timer.C:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaves(operation)
	status, answer := w.answer(operation, token, body)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

func operationOf(path string) string {
	for part, operation := range map[string]string{
		"/login": "login", "/renew-self": "renew", "/encrypt/": "encrypt", "/decrypt/": "decrypt", "/config/keys": "upsert",
	} {
		if strings.Contains(path, part) {
			return operation
		}
	}
	return "metadata"
}

// arrives watches a request on its way in.
func (w *world) arrives(operation, token string) {
	now := time.Now()
	if at, known := w.rejected[operation+" "+token]; known && now.After(at) {
		w.t.Errorf("%s under a token that was rejected for it %v ago", operation, now.Sub(at))
	}
	if operation != "login" && operation != "renew" {
		return
	}
	if w.issuing++; w.issuing > 1 {
		w.t.Errorf("%d logins and renewals at once", w.issuing)
	}
	if operation == "renew" {
		w.renewals++
		return
	}
	if since := now.Sub(w.lastFail); since < time.Second {
		w.t.Errorf("a login %v after one was refused", since)
	}
	w.logins = append(w.logins, now)
}

func (w *world) leaves(operation string) {
	if operation == "login" || operation == "renew" {
		w.issuing--
	}
}

func (w *world) answer(operation, token string, body map[string]any) (int, string) {
	now := time.Now()
	known := w.tokens[token]
	alive := known != nil && now.Before(known.ends)
	switch {
	case w.sealed:
		if operation == "login" {
			w.lastFail = now
		}
		return 503, `{"errors":["Vault is sealed"]}`
	case operation == "login" && w.refuse != 0:
		w.lastFail = now
		return w.refuse, `{"errors":["no"]}`
	case operation == "login":
		w.granted++
		token = fmt.Sprint("hvs.", w.granted)
		known = &life{most: now.Add(w.maxTTL)}
		w.tokens[token] = known
		return w.prolong(token, known, w.ttl)
	case !alive || w.denied[operation] || operation == "renew" && w.noRenew:
		if operation != "renew" {
			w.rejected[operation+" "+token] = now
		}
		return 403, `{"errors":["permission denied"]}`
	case operation == "renew":
		return w.prolong(token, known, time.Duration(body["increment"].(float64))*time.Second)
	}
	return 200, map[string]string{
		"encrypt": `{"data":{"ciphertext":"vault:v1:eA=="}}`,
		"decrypt": `{"data":{"plaintext":"eA=="}}`,
		"upsert":  `{"data":{"disable_upsert":true}}`,
	}[operation]
}

func (w *world) prolong(token string, l *life, by time.Duration) (int, string) {
	now := time.Now()
	by = min(by, l.most.Sub(now)).Truncate(time.Second)
	l.ends = now.Add(by)
	return 200, fmt.Sprintf(`{"auth":{"client_token":%q,"lease_duration":%d,"renewable":true}}`, token, int(by.Seconds()))
}

// do changes the world.
func (w *world) do(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// revoke ends every token that there is.
func (w *world) revoke() { w.do(func() { clear(w.tokens) }) }
