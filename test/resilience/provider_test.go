package resilience

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
)

// What a test reads from a running provider: its metrics, its readiness, and what its process holds.

// plainHTTP keeps no connection: the provider's own descriptors are counted.
var plainHTTP = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// binary is the provider as `make build` built it.
func binary(t *testing.T) string {
	t.Helper()
	bins, err := stack.Find()
	if bins.Root == "" {
		t.Fatal(err)
	}
	path := filepath.Join(bins.Root, "bin", "bao-kms-provider")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("bin/bao-kms-provider is not built: run make build")
	}
	return path
}

// ready is a provider's answer on /ready.
type ready struct {
	Status  string   `json:"status"`
	Healthz string   `json:"healthz"`
	Reasons []string `json:"reasons"`
	Class   string   `json:"metadata_error_class"`
}

func readiness(ctx context.Context, p *stack.Provider) (ready, error) {
	var r ready
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Files.HealthAddress+"/ready", nil)
	if err != nil {
		return r, err
	}
	resp, err := plainHTTP.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// isReady is nil when the provider says that it is ready.
func isReady(ctx context.Context, p *stack.Provider) error {
	r, err := readiness(ctx, p)
	if err == nil && r.Status != "ready" {
		err = fmt.Errorf("reasons %q, class %q", r.Reasons, r.Class)
	}
	return err
}

// metrics are a provider's, by name with labels as they are printed.
type metrics map[string]float64

func scrape(ctx context.Context, p *stack.Provider) (metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Files.MetricsAddress+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := plainHTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	m := metrics{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if i < 0 || err != nil {
			return nil, fmt.Errorf("a line of the metrics is not one: %q", line)
		}
		m[line[:i]] = value
	}
	return m, lines.Err()
}

// sum adds up all series of a name whose labels contain each of parts.
func (m metrics) sum(name string, parts ...string) float64 {
	total := 0.0
series:
	for key, value := range m {
		series, labels, _ := strings.Cut(key, "{")
		if series != name {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(labels, part) {
				continue series
			}
		}
		total += value
	}
	return total
}

// sent is how many requests of any kind the provider has sent to OpenBao, whatever became of them.
func (m metrics) sent() int { return int(m.sum("openbao_kms_openbao_requests_total")) }

// breaker is the state of the circuit breaker: 0 closed, 1 half-open, 2 open.
func (m metrics) breaker() float64 {
	if state, ok := m["openbao_kms_circuit_breaker_state"]; ok {
		return state
	}
	return -1
}

// holdings are what a process holds.
type holdings struct {
	goroutines, descriptors, sockets int
	// memory is resident, in bytes.
	memory int64
}

func (h holdings) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d of them sockets, %.1f MiB resident",
		h.goroutines, h.descriptors, h.sockets, float64(h.memory)/(1<<20))
}

func holdingsOf(ctx context.Context, p *stack.Provider) (holdings, error) {
	m, err := scrape(ctx, p)
	if err != nil {
		return holdings{}, err
	}
	h := holdings{
		goroutines:  int(m["go_goroutines"]),
		descriptors: int(m["process_open_fds"]),
		memory:      int64(m["process_resident_memory_bytes"]),
	}
	dir := fmt.Sprintf("/proc/%d/fd", p.Pid())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return h, fmt.Errorf("counting the provider's sockets: %w", err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return h, fmt.Errorf("counting the provider's sockets: %w", err)
		}
		if strings.HasPrefix(target, "socket:") {
			h.sockets++
		}
	}
	return h, nil
}
