package manager

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// BenchmarkFleet measures how a manager grows with its fleet: what one change of a
// report costs, one after the other, and what all nodes' changes at once do; what an
// idle fleet costs; and the manager's memory.
func BenchmarkFleet(b *testing.B) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "reports\tplans\tplan KB\treconciles/change\twrites/change\tp50\tp99\tall at once\twrites\tidle reconciles/min\tidle writes/min\tresident MiB\t")
	for _, size := range []struct{ nodes, plans, changes int }{{100, 10, 100}, {300, 30, 100}, {1000, 100, 100}, {100, 1, 5}, {1000, 1, 3}} {
		b.Run(fmt.Sprintf("%dx%d", size.nodes, size.plans), func(b *testing.B) {
			for b.Loop() {
				measure(b, w, newMany(b, size.nodes, size.plans), size.changes)
			}
		})
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	fmt.Fprint(os.Stdout, "\n", table.String())
}

// idle is for how long an idle fleet is looked at; each node has one heartbeat in it.
const idle = 30 * time.Second

func measure(b *testing.B, w *tabwriter.Writer, m *many, changes int) {
	b.Helper()
	m.settle()
	before := m.counters()
	versions, _ := m.versions()
	var took []time.Duration
	for i := range changes {
		node := i * (m.nodes / m.plans) % m.nodes
		m.change(node, 100+i)
		begin := time.Now()
		took = append(took, max(0, m.wait(m.shows(node, 100+i), m.planOf(node)).Sub(begin)))
	}
	m.settle()
	after := m.counters()
	written, _ := m.versions()
	slices.Sort(took)

	for node := range m.nodes {
		m.change(node, 1000+node)
	}
	wrote := time.Now()
	for node := range m.nodes {
		m.wait(m.shows(node, 1000+node), m.planOf(node))
	}
	burst := time.Since(wrote)
	m.settle()
	burstVersions, _ := m.versions()

	quiet := m.counters()
	begin := time.Now()
	tick := time.NewTicker(idle / time.Duration(m.nodes))
	defer tick.Stop()
	for node := 0; node < m.nodes || time.Since(begin) < idle; node++ {
		m.beat(node % m.nodes)
		<-tick.C
	}
	minutes := time.Since(begin).Minutes()
	rest := m.counters()

	stored := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: m.planName(0)}}
	if err := env.client.Get(b.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		b.Fatal(err)
	}
	document, err := json.Marshal(stored)
	if err != nil {
		b.Fatal(err)
	}
	n := float64(changes)
	fmt.Fprintf(w, "%d\t%d\t%d\t%.1f\t%.1f\t%s\t%s\t%s\t%d\t%.1f\t%.1f\t%.0f\t\n", m.nodes, m.plans, len(document)/1000,
		(after.reconciles-before.reconciles)/n, float64(written-versions)/n,
		took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond),
		burst.Round(time.Millisecond), burstVersions-written,
		(rest.reconciles-quiet.reconciles)/minutes, (rest.writes-quiet.writes)/minutes, rest.resident/(1<<20))
	b.ReportMetric((after.reconciles-before.reconciles)/n, "reconciles/change")
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(rest.resident/(1<<20), "resident-MiB")
}
