package manager

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// many is a large fleet under the built manager: plans of one provider that name
// nodes/plans nodes each, no two the same, and ask for a retirement.
type many struct {
	*fleet
	tb           testing.TB
	nodes, plans int
	metrics      string // the manager's address
	reports      []*v1alpha1.KMSNodeReport
	// judged gets every version of a plan that the API server stores.
	mu     sync.Mutex
	judged map[string]judgement
	moved  chan struct{}
}

// judgement is the newest version of a plan, and how many there were.
type judgement struct {
	plan     *v1alpha1.KMSRotationPlan
	at       time.Time
	versions int
}

// newMany makes the fleet and waits until every plan waits for a review.
func newMany(tb testing.TB, nodes, plans int) *many {
	tb.Helper()
	m := &many{fleet: &fleet{tb, name(tb, "provider")}, tb: tb, nodes: nodes, plans: plans, metrics: freeAddress(tb),
		judged: map[string]judgement{}, moved: make(chan struct{}, 1)}
	mine := client.MatchingLabels(label(m.provider))
	tb.Cleanup(func() {
		for _, o := range []client.Object{&v1alpha1.KMSRotationPlan{}, &v1alpha1.KMSNodeReport{}} {
			if err := env.client.DeleteAllOf(context.Background(), o, mine); err != nil {
				tb.Errorf("removing the fleet: %v", err)
			}
		}
	})
	for i := range nodes {
		o := &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", m.provider, i), Labels: mine},
			Spec: v1alpha1.KMSNodeReportSpec{ProviderName: m.provider}}
		if err := env.client.Create(tb.Context(), o); err != nil {
			tb.Fatal(err)
		}
		m.reports = append(m.reports, o)
		m.tell(i, m.retiring(m.healthy(3, 7), 3))
	}
	m.watch()
	for i := range plans {
		p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: m.planName(i), Labels: mine}}
		p.Spec = v1alpha1.KMSRotationPlanSpec{ProviderName: m.provider, Retirement: &v1alpha1.Retirement{BeforeVersion: 3},
			ReportMaxAge: metav1.Duration{Duration: 24 * time.Hour}, SettleTime: metav1.Duration{Duration: time.Second}}
		for n := range m.nodes / m.plans {
			p.Spec.Nodes.Names = append(p.Spec.Nodes.Names, m.reports[i*m.nodes/m.plans+n].Name)
		}
		if err := env.client.Create(tb.Context(), p); err != nil {
			tb.Fatal(err)
		}
	}
	builtManager(tb, false).start("run", "--leader-elect=false", "--probe-address", "0", "--metrics-address", m.metrics, "--metrics-plain", "--log-level", "warn")
	for i := range plans {
		m.wait(func(s v1alpha1.KMSRotationPlanStatus) bool { return s.Phase == v1alpha1.AwaitingReview }, i)
	}
	return m
}

func (m *many) planName(i int) string { return fmt.Sprintf("%s-plan-%d", m.provider, i) }

// planOf is the plan that a node is in.
func (m *many) planOf(node int) int { return node / (m.nodes / m.plans) }

// tell writes a node's report.
func (m *many) tell(node int, s v1alpha1.KMSNodeReportStatus) {
	m.tb.Helper()
	m.reports[node].Status = s
	if err := env.client.Status().Update(m.tb.Context(), m.reports[node]); err != nil {
		m.tb.Fatal(err)
	}
}

// beat writes a node's report as a heartbeat does: what moves are its times.
func (m *many) beat(node int) {
	m.tb.Helper()
	s := m.reports[node].Status
	now := time.Now()
	s.ObservedAt = &metav1.Time{Time: now}
	s.Report.GeneratedAt, s.Report.Observations.Metadata.ProbedAt = report.At(now), report.At(now)
	m.tell(node, s)
}

// change writes a node's report with a registry that has moved on to a generation.
func (m *many) change(node, generation int) {
	m.tb.Helper()
	m.tell(node, m.retiring(m.healthy(3, generation), 3))
}

// watch follows the plans until the test ends.
func (m *many) watch() {
	m.tb.Helper()
	events, err := env.client.Watch(m.tb.Context(), &v1alpha1.KMSRotationPlanList{}, client.MatchingLabels(label(m.provider)))
	if err != nil {
		m.tb.Fatal(err)
	}
	m.tb.Cleanup(events.Stop)
	go func() {
		for e := range events.ResultChan() {
			p, ok := e.Object.(*v1alpha1.KMSRotationPlan)
			if !ok {
				continue
			}
			m.mu.Lock()
			m.judged[p.Name] = judgement{p, time.Now(), m.judged[p.Name].versions + 1}
			m.mu.Unlock()
			select {
			case m.moved <- struct{}{}:
			default:
			}
		}
	}()
}

// wait waits until a plan's status fits, and is when that was seen.
func (m *many) wait(fits func(v1alpha1.KMSRotationPlanStatus) bool, plan int) time.Time {
	m.tb.Helper()
	late := time.After(patience)
	for {
		m.mu.Lock()
		j := m.judged[m.planName(plan)]
		m.mu.Unlock()
		if j.plan != nil && fits(j.plan.Status) {
			return j.at
		}
		select {
		case <-m.moved:
		case <-late:
			m.tb.Fatalf("plan %d does not get there: %+v", plan, j.plan)
		}
	}
}

// shows is whether a status tells of a node in a generation of its registry.
func (m *many) shows(node, generation int) func(v1alpha1.KMSRotationPlanStatus) bool {
	return func(s v1alpha1.KMSRotationPlanStatus) bool {
		return slices.ContainsFunc(s.Nodes, func(n v1alpha1.NodeStatus) bool {
			return n.Name == m.reports[node].Name && n.Generation == int64(generation)
		})
	}
}

// versions is how many versions of the plans were stored, all together and by plan.
func (m *many) versions() (all int, by []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.plans {
		n := m.judged[m.planName(i)].versions
		all, by = all+n, append(by, n)
	}
	return all, by
}

// counters are what the manager counts of itself.
type counters struct{ reconciles, failures, writes, resident float64 }

func (m *many) counters() counters {
	m.tb.Helper()
	answer, err := http.Get("http://" + m.metrics + "/metrics")
	if err != nil {
		m.tb.Fatal(err)
	}
	defer answer.Body.Close()
	var c counters
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case strings.HasPrefix(series, `controller_runtime_reconcile_total{controller="plan"`):
			c.reconciles += n
		case strings.HasPrefix(series, `controller_runtime_reconcile_errors_total{controller="plan"`):
			c.failures += n
		case strings.HasPrefix(series, "rest_client_requests_total{") && !strings.Contains(series, `method="GET"`):
			c.writes += n
		case series == "process_resident_memory_bytes":
			c.resident = n
		}
	}
	if err := lines.Err(); err != nil {
		m.tb.Fatal(err)
	}
	return c
}

// TestFleet: a report changes the plan that names its node and no other; heartbeats
// change nothing; nothing spins.
func TestFleet(t *testing.T) {
	const nodes, plans, changes = 100, 10, 30
	m := newMany(t, nodes, plans)
	generation := 7
	before := m.counters()
	_, versions := m.versions()
	// One node of every plan but the last, in turn.
	touched := map[int]bool{}
	for i := range changes {
		node := i % (plans - 1) * (nodes / plans)
		touched[m.planOf(node)] = true
		generation++
		m.change(node, generation)
		m.wait(m.shows(node, generation), m.planOf(node))
	}
	after := m.counters()
	_, now := m.versions()
	for p := range plans {
		if wrote := now[p] > versions[p]; wrote != touched[p] {
			t.Errorf("plan %d was written %d times; it names a node that changed: %t", p, now[p]-versions[p], touched[p])
		}
	}
	// A look at the change, one at the manager's own write; at times a conflict with
	// that, or a look that comes too early. All plans would be ten and more.
	if perChange := (after.reconciles - before.reconciles) / changes; perChange > 5 {
		t.Errorf("%.1f reconciles for each change", perChange)
	}
	if after.failures != 0 {
		t.Errorf("%v reconciles failed", after.failures)
	}

	// A round of heartbeats, and then a change by which to know that all were seen.
	m.settle()
	before = m.counters()
	for i := range nodes {
		m.beat(i)
	}
	idle := m.counters()
	m.change(nodes-1, 1000)
	m.wait(m.shows(nodes-1, 1000), plans-1)
	m.settle()
	after = m.counters()
	if idle.writes != before.writes {
		t.Errorf("heartbeats made the manager write %v times", idle.writes-before.writes)
	}
	if got := after.reconciles - before.reconciles; got > 5 {
		t.Errorf("%d heartbeats and one change made the manager judge %v times", nodes, got)
	}
}

// settle waits until the manager has been at rest for a while.
func (m *many) settle() {
	m.tb.Helper()
	var last counters
	var since time.Time
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		now := m.counters()
		switch {
		case now.reconciles != last.reconciles || now.writes != last.writes:
			last, since = now, time.Now()
		case time.Since(since) > time.Second:
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			m.tb.Fatal("the manager does not come to rest: it judges or writes all the time")
		}
	}
}
