package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/internal/provider/version"
	"github.com/baokms/baokms/test/conformance/interpose"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// These tests run the operator's benchmark against the built provider and a real Transit. The provider reaches Transit through a proxy; the
// bare calls go there directly, so that the proxy is a fault of one side alone.

// node is what an operator's benchmark meets.
type node struct {
	transit  *stack.Transit
	proxy    *interpose.Proxy
	provider *stack.Provider
	// config is the provider's, but for openbao.address, which is Transit's own.
	config *config.Config
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{transit: stacktest.Transit(t, stack.TransitOptions{Policy: policy.OpenBao(stack.DefaultMount, stack.DefaultKey)})}
	pair, err := n.transit.CA().Issue("proxy", stack.CertRequest{CommonName: "proxy", Hosts: []string{n.transit.ServerName()}})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := interpose.LoadCertificate(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	n.proxy = interpose.Start(t, interpose.Upstream{
		Address: n.transit.Address(), Roots: n.transit.CA().Pool(), ServerName: n.transit.ServerName(), Certificate: certificate,
	})
	bins, err := stack.Find()
	if bins.Root == "" {
		t.Fatal(err)
	}
	// No probe but those of the start: what a test breaks is for the benchmark to find.
	n.provider = stacktest.Provider(t, filepath.Join(bins.Root, "bin", "bao-kms-provider"), n.transit, stack.ProviderConfig{Fields: map[string]any{
		"openbao.address":           n.proxy.Address(),
		"status.probeInterval":      "12h",
		"status.deepProbeInterval":  "12h",
		"status.statusMaxStaleness": "24h",
	}})
	loaded, err := config.Load(n.provider.Files.Config)
	if err != nil {
		t.Fatal(err)
	}
	direct := *loaded
	direct.OpenBao.Address = n.transit.Address()
	n.config = &direct
	return n
}

// options are those of a short run.
func (n *node) options() benchmark.Options {
	return benchmark.Options{Config: n.config, Build: version.Get(), Callers: []int{4, 1}, Duration: 200 * time.Millisecond}
}

// noneOf checks that a text repeats nothing that may not be in it.
func (n *node) noneOf(t *testing.T, text string) {
	t.Helper()
	f := n.provider.Files
	for _, secret := range []string{n.transit.Mount() + "/", n.transit.Key(), stack.JWTMount, f.Socket, f.State, f.JWT, "hvs."} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is repeated in: %s", secret, text)
		}
	}
}

// hook is a terminal on which something happens when a text appears for the first time.
type hook struct {
	text string
	do   func()
	done bool
}

func (h *hook) Write(b []byte) (int, error) {
	if !h.done && strings.Contains(string(b), h.text) {
		h.done = true
		h.do()
	}
	return len(b), nil
}

// wants checks an error against its beginning and what else must be in it.
func (n *node) wants(t *testing.T, r *command.Report, err error, beginning string, parts ...string) {
	t.Helper()
	if err == nil || r != nil || !strings.HasPrefix(err.Error(), beginning) {
		t.Fatalf("report %+v, error %v; want the error %q", r, err, beginning)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	n.noneOf(t, err.Error())
}

const doctor = "run `bao-kms-provider doctor`"

func TestOperatorsBenchmark(t *testing.T) {
	n := newNode(t)
	ctx := t.Context()

	t.Run("measures", func(t *testing.T) {
		before, err := os.ReadFile(n.provider.Files.State)
		if err != nil {
			t.Fatal(err)
		}
		o := n.options()
		o.Sizes = []int{731, 32} // 731 is the most that Transit may be given
		r, err := benchmark.Run(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		checkShape(t, r)
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		n.noneOf(t, string(raw))
		if after, err := os.ReadFile(n.provider.Files.State); err != nil || string(after) != string(before) {
			t.Errorf("the state was changed, or %v", err)
		}
	})

	t.Run("a plaintext that is too large", func(t *testing.T) {
		o := n.options()
		o.Sizes = []int{732}
		r, err := benchmark.Run(ctx, o)
		var wrong *benchmark.UsageError
		if n.wants(t, r, err, "a plaintext of 732 bytes: give 1 to 731"); !errors.As(err, &wrong) {
			t.Errorf("%T is no usage error", err)
		}
	})

	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		var at time.Time
		o := n.options()
		o.Config, o.Duration = withoutStatus(o.Config), 4*time.Second // the turn before takes a second
		o.Progress = &hook{text: "bare Transit encrypt of 32 bytes with 1 caller", do: func() {
			time.AfterFunc(50*time.Millisecond, func() { at = time.Now(); cancel() })
		}}
		r, err := benchmark.Run(ctx, o)
		took := time.Since(at)
		if n.wants(t, r, err, "the benchmark was interrupted and reports nothing: context canceled"); !errors.Is(err, context.Canceled) || took > 500*time.Millisecond {
			t.Errorf("%v, %v after the interruption", err, took)
		}
		healthy(t, n)
	})

	t.Run("a wrong answer through the socket", func(t *testing.T) {
		n.wrong(t, n.config, "Decrypt of 32 bytes through the socket with 4 callers: the answer is wrong, another plaintext than the one that was encrypted")
	})

	t.Run("a wrong bare answer", func(t *testing.T) {
		provider := *n.config
		provider.OpenBao.Address = n.proxy.Address()
		n.wrong(t, &provider, "bare Transit decrypt of 32 bytes with 4 callers: the answer is wrong, another plaintext than the one that was encrypted")
	})
}

// withoutStatus leaves Status out, by a cap that allows none.
func withoutStatus(c *config.Config) *config.Config {
	changed := *c
	changed.Server.MaxConcurrentStatus = 1
	return &changed
}

// wrong has the proxy answer one decryption wrongly when the turns of four callers begin.
func (n *node) wrong(t *testing.T, c *config.Config, want string) {
	t.Helper()
	what := strings.SplitN(want, ":", 2)[0]
	o := n.options()
	o.Config = c
	o.Progress = &hook{text: what, do: func() {
		n.proxy.Answer("/decrypt/", 1, http.StatusOK, `{"data":{"plaintext":"bm90IHdoYXQgd2FzIGVuY3J5cHRlZA=="}}`)
	}}
	r, err := benchmark.Run(t.Context(), o)
	n.wants(t, r, err, want, doctor)
	healthy(t, n)
}

// healthy checks that a benchmark has left the provider as it was.
func healthy(t *testing.T, n *node) {
	t.Helper()
	o := n.options()
	o.Callers, o.Duration = []int{1}, 100*time.Millisecond
	if _, err := benchmark.Run(t.Context(), o); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// checkShape checks that the figures are possible and agree with each other.
func checkShape(t *testing.T, r *command.Report) {
	t.Helper()
	if r.Kind != command.KindBenchmark || r.Result != command.Pass || len(r.Next) < 2 || r.Benchmark == nil || len(r.Benchmark.Rows) != 2+2*2*2 {
		t.Fatalf("%+v", r)
	}
	possible := func(name string, f command.Figures) {
		if f.Calls < 1 || f.CallsPerSec <= 0 || f.P50Micros < 1 || f.P50Micros > f.P95Micros || f.P95Micros > f.P99Micros || f.P99Micros > f.SlowestMicros {
			t.Errorf("%s: impossible figures %+v", name, f)
		}
	}
	for i, row := range r.Benchmark.Rows {
		callers := []int{1, 4}[i%2]
		operation, size := "status", 0
		if i >= 2 {
			operation, size = []string{"encrypt", "decrypt"}[(i-2)/2%2], []int{32, 731}[(i-2)/4]
		}
		if row.Operation != operation || row.PayloadBytes != size || row.Callers != callers {
			t.Errorf("row %d is %s of %d bytes with %d callers, want %s, %d, %d", i, row.Operation, row.PayloadBytes, row.Callers, operation, size, callers)
		}
		possible(row.Operation, row.Socket)
		if row.Operation == "status" {
			if row.Bare != nil || row.Ratio != 0 {
				t.Errorf("Status has a bare side: %+v", row)
			}
			continue
		}
		possible("bare "+row.Operation, *row.Bare)
		if row.Ratio != row.Socket.CallsPerSec/row.Bare.CallsPerSec {
			t.Errorf("the ratio of %+v is not the quotient", row)
		}
	}
}

// What the operator's benchmark says when something is not there. Each case makes it worse, and the provider does not notice.
func TestOperatorsBenchmarkOfABrokenNode(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct {
		name      string
		breakIt   func(ctx context.Context) error
		beginning string
		parts     []string
	}{
		{"the mount creates keys", func(ctx context.Context) error { return n.transit.AllowUpsert(ctx, true) },
			"the Transit mount lets an encryption create a key: set disable_upsert on it before anything is encrypted", nil},
		{"no login", func(ctx context.Context) error {
			return n.transit.UpdateRole(ctx, map[string]any{"bound_subject": "somebody-else"})
		}, "preparing the bare Transit calls: ", []string{"[auth_failed]", doctor}},
		{"no OpenBao", func(context.Context) error { return n.transit.Stop() },
			"preparing the bare Transit calls: ", []string{"[openbao_connection_failed]", doctor}},
		{"no provider", func(context.Context) error { return n.provider.Stop() },
			"the provider's first Status: no provider serves server.socketPath: start it", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.breakIt(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := benchmark.Run(t.Context(), n.options())
			n.wants(t, r, err, c.beginning, c.parts...)
		})
	}
}

func TestOpenBaoGoesAwayDuringAnOperatorsBenchmark(t *testing.T) {
	for _, c := range []struct{ name, during string }{
		{"bare", "bare Transit encrypt of 32 bytes with 4 callers"},
		{"through the socket", "Decrypt of 32 bytes through the socket with 1 caller"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			o := n.options()
			o.Progress = &hook{text: c.during, do: n.transit.Kill}
			r, err := benchmark.Run(t.Context(), o)
			n.wants(t, r, err, c.during+": ", "[openbao_", doctor)
		})
	}
}

func TestTheProviderEndsDuringAnOperatorsBenchmark(t *testing.T) {
	n := newNode(t)
	const during = "Encrypt of 32 bytes through the socket with 4 callers"
	o := n.options()
	o.Progress = &hook{text: during, do: n.provider.Kill}
	r, err := benchmark.Run(t.Context(), o)
	// The connection is gone, or it was made again in vain: either may be noticed first.
	n.wants(t, r, err, during+": ", "look into its log")
}
