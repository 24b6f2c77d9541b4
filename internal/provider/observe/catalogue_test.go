package observe

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/status"
)

// catalogue is what was seen in scrapes: each metric's type, and the values of
// each of its labels.
type catalogue struct {
	types  map[string]string
	labels map[string]map[string]map[string]bool
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (openbao_kms_\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`^(openbao_kms_\w+?)(?:\{(.*)\})? [-+0-9.e]+$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

func (c *catalogue) add(t *testing.T, exposition string) {
	t.Helper()
	for line := range strings.Lines(exposition) {
		line = strings.TrimSpace(line)
		if typ := typeLine.FindStringSubmatch(line); typ != nil {
			c.types[typ[1]] = typ[2]
			if c.labels[typ[1]] == nil {
				c.labels[typ[1]] = map[string]map[string]bool{}
			}
			continue
		}
		if !strings.HasPrefix(line, namespace) {
			continue
		}
		sample := sampleLine.FindStringSubmatch(line)
		if sample == nil {
			t.Fatalf("cannot read %q", line)
		}
		name := c.metricOf(sample[1])
		if name == "" {
			t.Fatalf("%q has no type", line)
		}
		for _, pair := range labelPair.FindAllStringSubmatch(sample[2], -1) {
			if pair[1] == "le" {
				continue
			}
			if c.labels[name][pair[1]] == nil {
				c.labels[name][pair[1]] = map[string]bool{}
			}
			c.labels[name][pair[1]][pair[2]] = true
		}
	}
}

// metricOf is the metric that a sample belongs to: a histogram has three kinds.
func (c *catalogue) metricOf(sample string) string {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(sample, suffix); ok && c.types[name] != "" {
			return name
		}
	}
	return ""
}

func (c *catalogue) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.types)) {
		fmt.Fprintf(&b, "%s %s\n", name, c.types[name])
		for _, label := range slices.Sorted(maps.Keys(c.labels[name])) {
			fmt.Fprintf(&b, "  %s: %s\n", label, strings.Join(slices.Sorted(maps.Keys(c.labels[name][label])), " "))
		}
	}
	return b.String()
}

// TestCatalogue holds every metric that the endpoint ever shows, with its type,
// its labels and all their values, against testdata/metrics.golden, which is
// design/observability's table plus openbao_kms_ready and
// openbao_kms_unready_reason. Everything is exercised, also with what no caller
// should say.
func TestCatalogue(t *testing.T) {
	var board status.Board
	m := NewMetrics(testBuild, &board)
	seen := &catalogue{types: map[string]string{}, labels: map[string]map[string]map[string]bool{}}
	seen.add(t, scrape(t, m)) // nothing is known yet

	statuses := append(slices.Sorted(maps.Keys(union(classes, reasons))), "ok", "", "some free text")
	for _, method := range append(methodNames[:], "Rewrap") {
		m.KMS().RequestRejected(method)
		for code := range codes.Code(codeCount + 1) {
			for _, class := range append(statuses, string(fault.ClassNone)) {
				m.KMS().RequestStarted(method)
				m.KMS().RequestDone(method, code, fault.Class(class), time.Millisecond)
			}
		}
	}
	for _, s := range statuses {
		for _, operation := range append(slices.Clone(operations), "secret/path") {
			m.OpenBao().RequestDone(operation, s, time.Millisecond)
		}
		m.LoginDone(s)
		m.RenewalDone(s)
		m.RecoveryDone(s)
		m.MetadataObserved(s)
	}
	m.SocketRestarted()
	for _, method := range []string{"jwt", "cert", "token"} {
		m.WatchAuth(method, ttl(time.Minute), ttl(time.Hour))
		seen.add(t, scrape(t, m))
	}
	for state := range 5 {
		m.WatchBreaker(func() int { return state })
		seen.add(t, scrape(t, m))
	}

	r := kmstest.Bootstrapped(t)
	board.Store(kmstest.Healthy(r))
	seen.add(t, scrape(t, m))
	board.Store(kmstest.Healthy(kmstest.Observed(t, r)))
	seen.add(t, scrape(t, m))
	for reason := range reasons {
		board.Store(kmstest.Unhealthy(r, status.Reason(reason)))
		seen.add(t, scrape(t, m))
	}
	board.Store(kmstest.Unhealthy(r, "secret/path"))
	seen.add(t, scrape(t, m))

	golden(t, "metrics.golden", seen.String())
}
