package transit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

const (
	canaryMount  = "canary-mount"
	canaryKey    = "canary-key"
	canaryPlain  = "CANARY-plaintext"
	canaryCipher = "vault:v3:CANARYciphertext"
)

// assertFault checks an error's cause, a fragment of its text, and that nothing
// secret is in it.
func assertFault(t *testing.T, err error, want fault.Cause, fragment string) {
	t.Helper()
	if got := fault.CauseOf(err); got != want {
		t.Errorf("cause is %q (%v), want %q", got.Text(), err, want.Text())
	}
	if err == nil || !strings.Contains(err.Error(), fragment) {
		t.Errorf("error is %v, want %q in it", err, fragment)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		text := strings.ToLower(e.Error())
		for _, canary := range []string{"canary", "q0foqvj", "/v1/", "vault:v"} {
			if strings.Contains(text, canary) {
				t.Errorf("the error %q holds %q", e, canary)
			}
		}
	}
}

// binding is a snapshot's part.
type binding struct {
	version int
	aad     string
}

func (b binding) Version() int                 { return b.version }
func (b binding) AssociatedDataBase64() string { return b.aad }

var three = binding{3, base64.StdEncoding.EncodeToString([]byte(`{"aad_version":"v1"}`))}

// tokens is a TokenSource: each rejected token is followed by the next of the
// list. After the last, errDelayed: that token stays in use, as *auth.Session
// does it.
type tokens struct {
	mu       sync.Mutex
	list     []openbao.Secret
	replaced int
	failure  error // of Replace, nil for none but errDelayed
}

var errDelayed = fault.New(fault.RecoveryDelayed, "get an OpenBao token", "wait")

func newTokens(n int) *tokens {
	s := &tokens{}
	s.add(n)
	return s
}

// add appends tokens: "hvs.CANARY-1" and so on.
func (s *tokens) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.list = append(s.list, openbao.NewSecret(fmt.Sprintf("hvs.CANARY-%d", s.replaced+len(s.list)+1)))
	}
}

func (s *tokens) Token(context.Context) (openbao.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return openbao.Secret{}, errDelayed
	}
	return s.list[0], nil
}

func (s *tokens) Replace(_ context.Context, rejected openbao.Secret) (openbao.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failure != nil:
		return openbao.Secret{}, s.failure
	case len(s.list) == 0:
		return openbao.Secret{}, errDelayed
	case s.list[0] != rejected:
		return s.list[0], nil
	case len(s.list) == 1:
		return openbao.Secret{}, errDelayed
	}
	s.list = s.list[1:]
	s.replaced++
	return s.list[0], nil
}

// peer starts a scripted OpenBao and returns a client of the canary key.
func peer(t testing.TB, source TokenSource, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	conn, err := openbao.New(openbao.Options{Address: s.URL, AllowPlainHTTP: true, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := New(conn, source, canaryMount, canaryKey)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answers starts a peer that answers every request alike.
func answers(t testing.TB, status int, body string) *Client {
	t.Helper()
	return peer(t, newTokens(2), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// calls are the four requests that the package makes.
var calls = map[string]func(context.Context, *Client) error{
	"encrypt": func(ctx context.Context, c *Client) error {
		_, err := c.Encrypt(ctx, three, []byte(canaryPlain))
		return err
	},
	"decrypt": func(ctx context.Context, c *Client) error {
		_, err := c.Decrypt(ctx, three, []byte(canaryCipher))
		return err
	},
	"metadata": func(ctx context.Context, c *Client) error {
		_, err := c.ReadKey(ctx)
		return err
	},
	"upsert": func(ctx context.Context, c *Client) error {
		_, err := c.ReadUpsertDisabled(ctx)
		return err
	},
}
