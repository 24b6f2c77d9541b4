package resilience

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// node is the common name in the provider's client certificates.
var node = stack.CertRequest{CommonName: "node-a", Lifetime: time.Hour}

// certWorld is a world whose provider logs in with a client certificate. It returns the CA that Transit trusts and the provider's files.
func certWorld(t *testing.T, role, fields map[string]any) (w *world, clients *stack.CA, files stack.Pair) {
	t.Helper()
	clients = stacktest.CA(t)
	files, err := clients.Issue("provider", node)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{
		"auth.method": "cert", "auth.jwt.mountPath": nil, "auth.jwt.role": nil, "auth.jwt.jwtFile": nil,
		"auth.cert.mountPath": stack.CertMount, "auth.cert.name": stack.JWTRole,
		"auth.cert.certificateFile": files.CertFile, "auth.cert.keyFile": files.KeyFile, "auth.cert.minRemainingTtl": "1m",
	}
	w = newWorld(t, options{calm: true, fields: with(fields, all), prepare: func(w *world) {
		w.must(w.transit.EnableCertLogin(t.Context(), clients))
		w.must(w.transit.UpdateCertRole(t.Context(), clients, role))
	}})
	return w, clients, files
}

// TestCertificateReplaced: the certificate on disk is replaced while tokens that were given for the old one are renewed. Nothing fails,
// also when the new one is of another CA and OpenBao, which binds a token to its certificate's CA, refuses the renewal: a login follows.
func TestCertificateReplaced(t *testing.T) {
	t.Parallel()
	renewed := map[string]any{"token_ttl": "6s", "token_max_ttl": "60s"}
	w, clients, files := certWorld(t, renewed, map[string]any{"auth.loginBeforeTokenExpiry": "3s", "auth.tokenRenewalIncrement": "6s"})
	for _, name := range []string{"renewed with the certificate", "replaced by one of the same CA"} {
		p := w.phase(name)
		// One comes every 3 s.
		w.await("the token is renewed twice", 15*time.Second, func() error {
			if w.since(p).renewals < 2 {
				return errNotYet
			}
			return nil
		})
		if s := w.since(p); s.logins != 0 {
			t.Errorf("%s: %d renewals and %d logins, want renewals only", name, s.renewals, s.logins)
		}
		_, err := clients.Issue("provider", node)
		w.must(err)
	}

	other := stacktest.CA(t)
	pair, err := other.Issue("provider", node)
	w.must(err)
	moved := w.phase("replaced by one of another CA")
	w.writeFile(files.KeyFile, readFile(w, pair.KeyFile))
	w.writeFile(files.CertFile, readFile(w, pair.CertFile))
	w.must(w.transit.UpdateCertRole(t.Context(), other, renewed))
	w.await("a login with the new certificate", 10*time.Second, func() error {
		if w.since(moved).logins == 0 {
			return errNotYet
		}
		return nil
	})
	w.last(5 * time.Second)
	s := w.since(moved)
	w.atMost("logins after the certificate was replaced", s.logins, 1)
	w.atMost("renewals after the certificate was replaced", s.renewals, 4)
	all := w.served()
	w.counted("openbao_kms_auth_login_total", all.logins)
	w.counted("openbao_kms_auth_renewal_total", all.renewals)
	if ttl := w.metrics()["openbao_kms_certificate_ttl_seconds"]; ttl < 3000 || ttl > 3600 {
		t.Errorf("the certificate is valid for %v s more, want nearly the hour that it was issued for", ttl)
	}
	w.finish()
}

// TestCertificateRefused: a certificate that has expired is not even presented; one of another CA is presented and refused. The right one
// on disk heals both, without a restart.
func TestCertificateRefused(t *testing.T) {
	t.Parallel()
	w, clients, files := certWorld(t, map[string]any{"token_ttl": "4s"}, nil)

	expired := w.phase("expired", noLogin()...)
	_, err := clients.Issue("provider", stack.CertRequest{CommonName: node.CommonName, Lifetime: -time.Minute})
	w.must(err)
	w.seen(expired.began, encrypt, codes.Unauthenticated, codes.FailedPrecondition)
	w.seen(expired.began, decrypt, codes.Unauthenticated)
	w.last(3 * time.Second)
	w.atMost("logins with an expired certificate", w.since(expired).logins, 1)
	replaced := w.phase("replaced", noLogin()...)
	_, err = clients.Issue("provider", node)
	w.must(err)
	w.healed(replaced.began, 3*time.Second)

	stranger, err := stacktest.CA(t).Issue("provider", node)
	w.must(err)
	strange := w.phase("of another CA", noLogin()...)
	w.writeFile(files.KeyFile, readFile(w, stranger.KeyFile))
	w.writeFile(files.CertFile, readFile(w, stranger.CertFile))
	w.seen(strange.began, encrypt, codes.Unauthenticated, codes.FailedPrecondition)
	w.seen(strange.began, decrypt, codes.Unauthenticated)
	w.last(2 * time.Second)
	// Up to one with the old certificate, and delays of 1, 2 and 4 s after those that are refused.
	w.atMost("logins with a certificate of another CA", w.since(strange).logins, 5)
	again := w.phase("replaced again", noLogin()...)
	_, err = clients.Issue("provider", node)
	w.must(err)
	w.healed(again.began, 9500*time.Millisecond)
	w.finish()
}
