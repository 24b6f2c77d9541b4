package deploy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/deploy/deploytest"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// world is a real Transit and two providers of one cluster, one for each way to
// log in: between them they export every metric.
type world struct {
	t       *testing.T
	transit *stack.Transit
	nodes   []*stack.Provider
	// scrapes are what /metrics said at different times.
	scrapes []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	options := stack.TransitOptions{Policy: policy.OpenBao(stack.DefaultMount, stack.DefaultKey)}
	w := &world{t: t, transit: stacktest.Transit(t, options)}
	// Five seconds after a login it is time to renew.
	role := map[string]any{"token_ttl": "15s"}
	fields := map[string]any{
		"auth.loginBeforeTokenExpiry": "10s",
		// A rotation stays pending as long as the test looks at it.
		"rotation.activationDelay": "1h",
	}
	w.must(w.transit.UpdateRole(t.Context(), role))
	w.join(fields)

	ca := w.transit.CA()
	w.must(w.transit.EnableCertLogin(t.Context(), ca))
	w.must(w.transit.UpdateCertRole(t.Context(), ca, role))
	pair, err := ca.Issue("node", stack.CertRequest{CommonName: "node", Lifetime: 40 * time.Hour})
	w.must(err)
	maps.Copy(fields, map[string]any{
		"auth.method": "cert", "auth.jwt.mountPath": nil, "auth.jwt.role": nil, "auth.jwt.jwtFile": nil,
		"auth.cert.mountPath": stack.CertMount, "auth.cert.certificateFile": pair.CertFile, "auth.cert.keyFile": pair.KeyFile,
	})
	w.join(fields)
	return w
}

// join starts a provider. One that does not start is an error of the test, and
// the others are looked at all the same.
func (w *world) join(fields map[string]any) {
	w.t.Helper()
	binary := deploytest.Built(w.t, "bao-kms-provider")
	files, err := stack.WriteProviderConfig(stacktest.Dir(w.t), w.transit, stack.ProviderConfig{Fields: fields})
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := stack.StartProvider(w.t.Context(), stack.ProviderOptions{Binary: binary, Files: files})
	if err != nil {
		w.t.Errorf("a provider with auth.method %v: %v", fields["auth.method"], err)
		return
	}
	w.t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			w.t.Errorf("stopping: %v", err)
		}
		if w.t.Failed() {
			lines := strings.Split(strings.TrimSpace(p.Logs()), "\n")
			w.t.Logf("the end of a provider's log:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	w.nodes = append(w.nodes, p)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// live makes happen what metrics tell of, and scrapes meanwhile.
func (w *world) live() {
	w.t.Helper()
	w.scrape()
	kms := w.kms(w.nodes[0])
	sealed, err := kms.Encrypt(w.t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("a seed")})
	w.must(err)
	in := &kmsapi.DecryptRequest{Ciphertext: sealed.Ciphertext, KeyId: sealed.KeyId, Annotations: sealed.Annotations}
	opened, err := kms.Decrypt(w.t.Context(), in)
	w.must(err)
	if string(opened.Plaintext) != "a seed" {
		w.t.Fatalf("another plaintext: %q", opened.Plaintext)
	}

	_, err = w.transit.Rotate(w.t.Context(), w.transit.Key())
	w.must(err)
	w.until("a version is pending", `rotation_state{state="pending"} 1`)
	w.scrape()

	w.must(w.transit.Seal(w.t.Context()))
	// A series that comes with its first failure shows an increase with its second.
	w.until("requests have failed", `openbao_requests_total{.*,status="openbao_sealed"} ([2-9]|\d\d)`)
	w.until("the provider is not ready", `ready 0`)
	if _, err := kms.Encrypt(w.t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("a seed")}); err == nil {
		w.t.Error("Encrypt succeeds while OpenBao is sealed")
	}
	w.scrape()
	w.must(w.transit.Unseal(w.t.Context()))
	w.ready()

	_, err = w.transit.RevokeLogins(w.t.Context())
	w.must(err)
	w.until("a rejected token was replaced", `auth_recovery_total{status="ok"} [1-9]`)
	w.ready()
	w.scrape()
}

func (w *world) kms(p *stack.Provider) kmsapi.KeyManagementServiceClient {
	w.t.Helper()
	conn, err := grpc.NewClient("unix://"+p.Files.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	w.must(err)
	w.t.Cleanup(func() { conn.Close() })
	return kmsapi.NewKeyManagementServiceClient(conn)
}

// scrape keeps what every node exports now.
func (w *world) scrape() {
	w.t.Helper()
	for _, p := range w.nodes {
		text, err := deploytest.Get("http://" + p.Files.MetricsAddress + "/metrics")
		w.must(err)
		w.scrapes = append(w.scrapes, text)
	}
}

// until waits until every node exports a metric of ours that a pattern matches.
func (w *world) until(what, pattern string) {
	w.t.Helper()
	line := regexp.MustCompile(`(?m)^openbao_kms_` + pattern)
	w.eventually(what, func(p *stack.Provider) error {
		metrics, err := deploytest.Get("http://" + p.Files.MetricsAddress + "/metrics")
		if err == nil && !line.MatchString(metrics) {
			err = fmt.Errorf("no metric matches %s", line)
		}
		return err
	})
}

// ready waits until every node is.
func (w *world) ready() {
	w.t.Helper()
	w.eventually("the provider is ready", func(p *stack.Provider) error {
		_, err := deploytest.Get("http://" + p.Files.HealthAddress + "/ready")
		return err
	})
}

func (w *world) eventually(what string, condition func(*stack.Provider) error) {
	w.t.Helper()
	deploytest.Eventually(w.t, func() error {
		var errs []error
		for _, p := range w.nodes {
			errs = append(errs, condition(p))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}
