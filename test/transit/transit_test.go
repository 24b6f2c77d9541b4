// Package transit_test tries packages openbao, auth and transit together
// against a real Transit server, logged in with the least-privilege policy. It
// stands apart so that transit's own tests and fuzz targets need no server and
// do not build the client libraries that package stack brings.
package transit_test

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

type snapshot struct {
	version int
	aad     string
}

func (s snapshot) Version() int { return s.version }
func (s snapshot) AssociatedDataBase64() string {
	return base64.StdEncoding.EncodeToString([]byte(s.aad))
}

// real is a client that is logged in to a real Transit with the
// least-privilege policy.
type real struct {
	server  *stack.Transit
	conn    *openbao.Conn
	session *auth.Session
	client  *transit.Client
}

func start(t *testing.T) real {
	t.Helper()
	server := stacktest.Transit(t, stack.TransitOptions{})
	file := filepath.Join(t.TempDir(), "jwt")
	if err := server.WriteJWT(file, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := openbao.New(openbao.Options{
		Address: server.Address(), CAFile: server.CAFile(), ServerName: server.ServerName(), Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	session := auth.NewSession(auth.Options{
		Login: auth.NewJWT(conn, auth.JWTOptions{
			MountPath: stack.JWTMount, Role: stack.JWTRole, File: file, Leeway: 30 * time.Second,
			Issuer: stack.JWTIssuer, Audience: stack.JWTAudience, Subject: stack.JWTSubject,
		}),
		Window: time.Minute, RequestTimeout: 10 * time.Second,
	})
	t.Cleanup(session.Close)
	r := real{server: server, conn: conn, session: session}
	r.client = r.named(t, server.Mount(), server.Key())
	return r
}

func (r real) named(t *testing.T, mount, key string) *transit.Client {
	t.Helper()
	c, err := transit.New(r.conn, r.session, mount, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRealTransit(t *testing.T) {
	r := start(t)
	ctx := t.Context()
	one := snapshot{1, "aad"}
	check := func(what string, err error, want fault.Cause) {
		t.Helper()
		if got := fault.CauseOf(err); got != want {
			t.Errorf("%s: %v, want %q", what, err, want.Text())
		}
		if err != nil && (strings.Contains(err.Error(), r.server.Key()) || strings.Contains(err.Error(), r.server.Mount())) {
			t.Errorf("%s: the error %q names the key or the mount", what, err)
		}
	}

	key, err := r.client.ReadKey(ctx)
	if err != nil || len(key.CheckProfile()) != 0 || key.Latest != 1 || time.Since(time.Unix(key.CreatedAtUnix[1], 0)) > time.Hour {
		t.Fatalf("ReadKey: %+v %v, %v", key, key.CheckProfile(), err)
	}
	if disabled, err := r.client.ReadUpsertDisabled(ctx); err != nil || !disabled {
		t.Errorf("ReadUpsertDisabled: %v, %v", disabled, err)
	}
	check("deep probe", r.client.RoundTrip(ctx, one), fault.None)

	plaintext := bytes.Repeat([]byte{0, 0xff, '"', '\\'}, 64)
	ciphertext, err := r.client.Encrypt(ctx, one, plaintext)
	check("encrypt", err, fault.None)
	back, err := r.client.Decrypt(ctx, one, ciphertext)
	if err != nil || !bytes.Equal(back, plaintext) {
		t.Fatalf("Decrypt: %q, %v", back, err)
	}

	_, err = r.client.Decrypt(ctx, snapshot{1, "other"}, ciphertext)
	check("other associated data", err, fault.CiphertextRefused)
	_, err = r.client.Decrypt(ctx, snapshot{1, ""}, ciphertext)
	check("no associated data", err, fault.CiphertextRefused)
	altered := bytes.Clone(ciphertext)
	altered[len("vault:v1:")+20] ^= 'A' ^ 'B'
	_, err = r.client.Decrypt(ctx, one, altered)
	check("altered", err, fault.CiphertextRefused)
	_, err = r.client.Decrypt(ctx, one, []byte("AAAA"))
	check("no prefix", err, fault.CiphertextRefused)
	_, err = r.client.Decrypt(ctx, one, bytes.Replace(ciphertext, []byte(":v1:"), []byte(":v2:"), 1))
	check("version above latest", err, fault.CiphertextRefused)
	_, err = r.client.Encrypt(ctx, snapshot{2, "aad"}, plaintext)
	check("encrypt above latest", err, fault.RequestRefused)
	_, err = r.client.Encrypt(ctx, one, make([]byte, 4096))
	check("a ciphertext over the limit", err, fault.ResponseOverLimit)

	if _, err := r.server.Rotate(ctx, r.server.Key()); err != nil {
		t.Fatal(err)
	}
	if ciphertext, err = r.client.Encrypt(ctx, one, plaintext); err != nil || !bytes.HasPrefix(ciphertext, []byte("vault:v1:")) {
		t.Errorf("encrypt with an older version: %.12q, %v", ciphertext, err)
	}
	if err := r.server.ConfigureKey(ctx, r.server.Key(), map[string]any{"min_encryption_version": 2, "min_decryption_version": 2}); err != nil {
		t.Fatal(err)
	}
	_, err = r.client.Encrypt(ctx, one, plaintext)
	check("encrypt below the minimum", err, fault.RequestRefused)
	_, err = r.client.Decrypt(ctx, one, ciphertext)
	check("decrypt below the minimum", err, fault.CiphertextRefused)
	if key, err = r.client.ReadKey(ctx); err != nil || key.Latest != 2 || key.MinDecryption != 2 || len(key.CreatedAtUnix) != 1 {
		t.Errorf("ReadKey after the minimum was raised: %+v, %v", key, err)
	}

	check("another key", r.named(t, r.server.Mount(), "other").RoundTrip(ctx, one), fault.PolicyDenied)
	_, err = r.named(t, "nowhere", r.server.Key()).ReadKey(ctx)
	check("another mount, during the delay", err, fault.DenialDelayed)
}

func TestRealLifeOfAToken(t *testing.T) {
	r := start(t)
	ctx := t.Context()
	one := snapshot{1, "aad"}
	if err := r.client.RoundTrip(ctx, one); err != nil {
		t.Fatal(err)
	}
	// A revoked token is replaced within the call that meets it.
	if n, err := r.server.RevokeLogins(ctx); err != nil || n == 0 {
		t.Fatalf("revoked %d logins: %v", n, err)
	}
	if err := r.client.RoundTrip(ctx, one); err != nil {
		t.Errorf("after the token was revoked: %v", err)
	}
	if err := r.server.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.client.RoundTrip(ctx, one); fault.CauseOf(err) != fault.Sealed {
		t.Errorf("sealed: %v", err)
	}
	if err := r.server.Unseal(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.client.RoundTrip(ctx, one); err != nil {
		t.Errorf("unsealed again: %v", err)
	}
	if err := r.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.client.RoundTrip(ctx, one); fault.CauseOf(err) != fault.ConnectionFailed {
		t.Errorf("stopped: %v", err)
	}
}
