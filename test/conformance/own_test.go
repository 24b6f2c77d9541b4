package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/conformance"
	"github.com/baokms/baokms/test/conformance/interpose"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// node is the built provider, with a real Transit that it reaches through a proxy.
type node struct {
	transit  *stack.Transit
	proxy    *interpose.Proxy
	provider *stack.Provider
}

// binary is the built provider.
func binary(t *testing.T) string {
	t.Helper()
	found, err := stack.Find()
	if found.Root == "" {
		t.Fatal(err)
	}
	path := filepath.Join(found.Root, "bin", "bao-kms-provider")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("bin/bao-kms-provider is not built: run make build")
	}
	return path
}

// newNode starts a provider with a Transit of its own. Its login gets the policy that the product prints, and nothing more.
func newNode(t *testing.T, s conformance.Settings) *node {
	t.Helper()
	transit := stacktest.Transit(t, stack.TransitOptions{Policy: policy.OpenBao(stack.DefaultMount, stack.DefaultKey)})
	return addNode(t, transit, s)
}

// addNode starts a provider on a Transit that runs.
func addNode(t *testing.T, transit *stack.Transit, s conformance.Settings) *node {
	t.Helper()
	pair, err := transit.CA().Issue("proxy", stack.CertRequest{CommonName: "proxy", Hosts: []string{transit.ServerName()}})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := interpose.LoadCertificate(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{transit: transit}
	n.proxy = interpose.Start(t, interpose.Upstream{
		Address: transit.Address(), Roots: transit.CA().Pool(), ServerName: transit.ServerName(), Certificate: certificate,
	})
	fields := fieldsOf(s)
	fields["openbao.address"] = n.proxy.Address()
	n.provider = stacktest.Provider(t, binary(t), transit, stack.ProviderConfig{Fields: fields})
	return n
}

// fieldsOf are the fields of the configuration that settings stand for.
func fieldsOf(s conformance.Settings) map[string]any {
	fields := map[string]any{
		"logging.level":             "debug", // what is not logged cannot be searched
		"status.probeInterval":      "12h",
		"status.deepProbeInterval":  "12h",
		"status.statusMaxStaleness": "24h",
		"openbao.timeout":           "30s", // a busy machine is not what is tested
	}
	if s.Cluster != "" {
		fields["transit.keyIdScope.clusterId"] = s.Cluster
	}
	if s.Quick {
		fields["status.probeInterval"] = "250ms"
		fields["rotation.activationDelay"] = "500ms"
		fields["rotation.requireStableObservationCount"] = 2
	}
	for name, value := range map[string]time.Duration{"status.statusMaxStaleness": s.MaxStaleness, "openbao.timeout": s.OpenBaoTimeout} {
		if value != 0 {
			fields[name] = value.String()
		}
	}
	for name, value := range map[string]int{"server.maxConcurrentEncrypt": s.MaxEncrypt, "server.maxConcurrentDecrypt": s.MaxDecrypt} {
		if value != 0 {
			fields[name] = value
		}
	}
	return fields
}

// target has every capability.
func (n *node) target() conformance.Target {
	return conformance.Target{
		Socket:   n.provider.Files.Socket,
		Contract: true,
		Seen:     n.seen,
		Fresh: func(t *testing.T, s conformance.Settings) conformance.Target {
			t.Helper()
			return newNode(t, s).target()
		},
		Peer: func(t *testing.T, s conformance.Settings) conformance.Target {
			t.Helper()
			return addNode(t, n.transit, s).target()
		},
		Rotate: func(ctx context.Context) error {
			_, err := n.transit.Rotate(ctx, n.transit.Key())
			return err
		},
		AllowUpsert:  n.transit.AllowUpsert,
		RevokeTokens: n.revokeTokens,
		Break:        n.breakIt,
		Hold:         func(part string, times int) conformance.Held { return n.proxy.Hold(part, times) },
		Answer:       n.proxy.Answer,
		Metrics: func(ctx context.Context) (string, error) {
			return get(ctx, n.provider.Files.MetricsAddress, "/metrics")
		},
		Output:  n.output,
		Secrets: n.secrets(),
	}
}

// seen is from the server's own audit log, not from the proxy.
func (n *node) seen() ([]string, error) {
	audited, err := n.transit.Audited(0)
	paths := make([]string, len(audited))
	for i, a := range audited {
		paths[i] = a.Path
	}
	return paths, err
}

func (n *node) revokeTokens(ctx context.Context) error {
	revoked, err := n.transit.RevokeLogins(ctx)
	if err == nil && revoked == 0 {
		err = errors.New("there was no token to revoke")
	}
	return err
}

func (n *node) breakIt(ctx context.Context, o conformance.Outage) error {
	switch o {
	case conformance.Sealed:
		return n.transit.Seal(ctx)
	case conformance.Stopped:
		n.proxy.Stop()
		return n.transit.Stop()
	case conformance.KeyDeleted:
		return n.transit.DeleteKey(ctx, n.transit.Key())
	case conformance.PolicyNarrowed:
		return n.transit.WritePolicy(ctx, stack.PolicyName, fmt.Sprintf(
			"path \"%[1]s/keys/%[2]s\" { capabilities = [\"read\"] }\npath \"%[1]s/config/keys\" { capabilities = [\"read\"] }\n", n.transit.Mount(), n.transit.Key()))
	case conformance.LoginRefused:
		if err := n.transit.UpdateRole(ctx, map[string]any{"bound_subject": "somebody-else"}); err != nil {
			return err
		}
		return n.revokeTokens(ctx)
	case conformance.RateLimited:
		return n.limitRate(ctx)
	}
	return fmt.Errorf("the outage %d is not known here", o)
}

// limitRate allows one request an hour on the mount, and makes that one itself.
func (n *node) limitRate(ctx context.Context) error {
	quota := map[string]any{"path": n.transit.Mount(), "rate": 1, "interval": "1h"}
	if err := n.transit.Root().Do(ctx, http.MethodPost, "sys/quotas/rate-limit/conformance", quota, nil); err != nil {
		return err
	}
	_, err := n.transit.ReadKey(ctx, n.transit.Key())
	return err
}

// output is the log, the metrics, the readiness and the state files.
func (n *node) output(ctx context.Context) (string, error) {
	f := n.provider.Files
	var all strings.Builder
	for _, e := range []struct{ address, path string }{{f.MetricsAddress, "/metrics"}, {f.HealthAddress, "/ready"}, {f.HealthAddress, "/live"}} {
		text, err := get(ctx, e.address, e.path)
		if err != nil {
			return "", err
		}
		all.WriteString(text)
	}
	files, err := filepath.Glob(f.State + "*")
	if err != nil {
		return "", err
	}
	for _, file := range append(files, f.Log) {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.Write(content)
	}
	return all.String(), nil
}

// secrets are what must not be in the output.
func (n *node) secrets() []string {
	secrets := []string{n.transit.Mount(), n.transit.Key(), stack.JWTMount, "hvs.", "s.CAES"}
	if jwt, err := os.ReadFile(n.provider.Files.JWT); err == nil {
		secrets = append(secrets, strings.TrimSpace(string(jwt)))
	}
	return secrets
}

// get reads an endpoint of the provider, whatever its status.
func get(ctx context.Context, address, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}
