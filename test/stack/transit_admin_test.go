package stack_test

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestTransitAdministration changes a server under a provider's feet.
func TestTransitAdministration(t *testing.T) {
	t.Parallel()
	s := stacktest.Transit(t, stack.TransitOptions{})
	c, l := login(t, s)
	ctx := t.Context()
	use := func() error {
		t.Helper()
		_, err := encrypt(t, c, s, "seed", "context")
		return err
	}
	again := func(change error) {
		t.Helper()
		if change != nil {
			t.Fatal(change)
		}
		c, l = login(t, s)
		if err := use(); err != nil {
			t.Fatalf("with a new login: %v", err)
		}
	}
	again(nil)

	if err := s.RevokeAccessor(ctx, l.Accessor); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "a revoked token", use(), http.StatusForbidden)
	again(nil)

	if n, err := s.RevokeLogins(ctx); err != nil || n < 1 {
		t.Errorf("RevokeLogins = %d, %v", n, err)
	}
	wantStatus(t, "a token revoked with all logins", use(), http.StatusForbidden)
	again(nil)

	if err := s.WritePolicy(ctx, stack.PolicyName, `path "sys/capabilities-self" { capabilities = ["update"] }`); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "a narrowed policy", use(), http.StatusForbidden)
	again(s.WritePolicy(ctx, stack.PolicyName, stack.LeastPrivilegePolicy(s.Mount(), s.Key())))

	if err := s.UpdateRole(ctx, map[string]any{"token_ttl": "90s"}); err != nil {
		t.Fatal(err)
	}
	again(nil)
	if l.TTL != 90*time.Second {
		t.Errorf("the token lives %v, want 90s", l.TTL)
	}
	if err := s.UpdateRole(ctx, map[string]any{"token_ttl": "0s", "token_max_ttl": "60s"}); err != nil {
		t.Fatal(err)
	}
	again(nil)
	if l.TTL != 60*time.Second {
		t.Errorf("the token lives %v, want the maximum of 60s", l.TTL)
	}

	if err := s.LimitRate(ctx, "slow", s.Mount(), 1); err != nil {
		t.Fatal(err)
	}
	hit := false
	for range 5 {
		hit = hit || status(use()) == http.StatusTooManyRequests
	}
	if !hit {
		t.Error("five calls at once met no limit of one in a second")
	}
	if err := s.UnlimitRate(ctx, "slow"); err != nil {
		t.Fatal(err)
	}
	again(nil)

	if _, err := s.Rotate(ctx, s.Key()); err != nil {
		t.Fatal(err)
	}
	if err := s.ConfigureKey(ctx, s.Key(), map[string]any{"min_decryption_version": 2, "min_encryption_version": 2}); err != nil {
		t.Fatal(err)
	}
	info, err := s.ReadKey(ctx, s.Key())
	if err != nil || info.MinDecryptionVersion != 2 || info.MinEncryptionVersion != 2 {
		t.Errorf("key = %+v, %v", info, err)
	}
	if _, listed := info.Created[1]; listed {
		t.Error("version 1 is listed below the minimum")
	}

	other, err := stack.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.TrustIssuers(ctx, other); err != nil {
		t.Fatal(err)
	}
	jwt, err := other.Mint(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LoginJWT(ctx, jwt); err != nil {
		t.Errorf("login with the new issuer: %v", err)
	}
}

func TestTransitCertificateLogin(t *testing.T) {
	t.Parallel()
	s := stacktest.Transit(t, stack.TransitOptions{})
	clients, strangers := stacktest.CA(t), stacktest.CA(t)
	if err := s.EnableCertLogin(t.Context(), clients); err != nil {
		t.Fatal(err)
	}
	newcomers := stacktest.CA(t)
	for _, c := range []struct {
		name    string
		ca      *stack.CA
		trust   *stack.CA
		refused bool
	}{
		{"trusted", clients, nil, false},
		{"of another CA", strangers, nil, true},
		{"of a CA that the role trusts now", newcomers, newcomers, false},
		{"of the CA that it trusted before", clients, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.trust != nil {
				if err := s.UpdateCertRole(t.Context(), c.trust, map[string]any{"token_ttl": "90s"}); err != nil {
					t.Fatal(err)
				}
			}
			pair, err := c.ca.Issue("node", stack.CertRequest{CommonName: "node-a"})
			if err != nil {
				t.Fatal(err)
			}
			certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			var answer struct {
				Auth struct {
					Lease int `json:"lease_duration"`
				} `json:"auth"`
			}
			err = s.Client(certificate).Do(t.Context(), http.MethodPost, stack.CertMount+"/login", map[string]any{"name": stack.JWTRole}, &answer)
			if c.trust != nil && answer.Auth.Lease != 90 {
				t.Errorf("the token lives %d s, want the role's 90", answer.Auth.Lease)
			}
			// Which refusal it is depends on the server: 400 or 403.
			if refused := status(err) == http.StatusBadRequest || status(err) == http.StatusForbidden; refused != c.refused || (!refused && err != nil) {
				t.Errorf("login: %v, want it refused: %v", err, c.refused)
			}
		})
	}
}

func TestTransitOptions(t *testing.T) {
	t.Parallel()
	policy := stack.LeastPrivilegePolicy("encryption", "main")
	s := stacktest.Transit(t, stack.TransitOptions{Mount: "encryption", Key: "main", Policy: policy, NoAudit: true})
	c, _ := login(t, s)
	if _, err := encrypt(t, c, s, "seed", "context"); err != nil {
		t.Errorf("encrypt on another mount: %v", err)
	}
	if _, err := s.Requests(""); err == nil {
		t.Error("requests are counted without an audit device")
	}
}
