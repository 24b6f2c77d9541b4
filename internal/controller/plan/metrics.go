package plan

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/baokms/baokms/api/v1alpha1"
)

// The metrics of the manager, beside controller-runtime's own. They are read from
// the cache at each scrape, so that a series ends with its object: labels are the
// names of objects that exist, and phases.
var (
	plansDesc = prometheus.NewDesc("baokms_manager_plans",
		"KMSRotationPlans by phase; phase is none for a plan that was not judged yet.", []string{"phase"}, nil)
	nodesDesc = prometheus.NewDesc("baokms_manager_plan_nodes",
		"Nodes of a plan.", []string{"plan"}, nil)
	convergedDesc = prometheus.NewDesc("baokms_manager_plan_nodes_converged",
		"Nodes of a plan that are on its key, ready, with nothing pending.", []string{"plan"}, nil)
	ageDesc = prometheus.NewDesc("baokms_manager_report_age_seconds",
		"Time since the node's provider last answered its reporter; at least 0.", []string{"node"}, nil)
)

// phases are the values of the label phase.
var phases = []v1alpha1.Phase{
	v1alpha1.Observing, v1alpha1.Rotating, v1alpha1.Converged, v1alpha1.Settling, v1alpha1.RewriteSafe,
	v1alpha1.AwaitingReview, v1alpha1.Approved, v1alpha1.Applying, v1alpha1.Retired, v1alpha1.Degraded,
}

const phaseNone = "none"

// scrapeTimeout bounds one scrape's reading of the cache.
const scrapeTimeout = 5 * time.Second

// collector makes the metrics of what the cache holds.
type collector struct {
	client client.Reader
	now    func() time.Time
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{plansDesc, nodesDesc, convergedDesc, ageDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	plans, reports := &v1alpha1.KMSRotationPlanList{}, &v1alpha1.KMSNodeReportList{}
	if err := c.client.List(ctx, plans, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(plansDesc, fmt.Errorf("reading plans from the cache: %w", err))
		return
	}
	if err := c.client.List(ctx, reports, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(ageDesc, fmt.Errorf("reading reports from the cache: %w", err))
		return
	}
	c.collectPlans(ch, plans.Items)
	for _, r := range reports.Items {
		if at := r.Status.ObservedAt; at != nil {
			ch <- gauge(ageDesc, max(0, c.now().Sub(at.Time).Seconds()), r.Name)
		}
	}
}

func (c collector) collectPlans(ch chan<- prometheus.Metric, plans []v1alpha1.KMSRotationPlan) {
	byPhase := map[v1alpha1.Phase]int{phaseNone: 0}
	for _, p := range phases {
		byPhase[p] = 0
	}
	for _, p := range plans {
		if _, known := byPhase[p.Status.Phase]; !known {
			byPhase[phaseNone]++
			continue
		}
		byPhase[p.Status.Phase]++
		ch <- gauge(nodesDesc, float64(len(p.Status.Nodes)), p.Name)
		ch <- gauge(convergedDesc, float64(convergedNodes(&p.Status)), p.Name)
	}
	for phase, n := range byPhase {
		ch <- gauge(plansDesc, float64(n), string(phase))
	}
}

func gauge(d *prometheus.Desc, v float64, label string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
}

// convergedNodes are the nodes that the summary counts: "2/3".
func convergedNodes(s *v1alpha1.KMSRotationPlanStatus) int {
	if s.Summary == nil {
		return 0
	}
	there, _, _ := strings.Cut(s.Summary.Nodes, "/")
	n, err := strconv.Atoi(there)
	if err != nil {
		return 0
	}
	return n
}

// exporter exposes the metrics while this replica is the leader: of two replicas
// one counts the plans.
type exporter struct{ collector collector }

// Start implements manager.Runnable.
func (e *exporter) Start(ctx context.Context) error {
	if err := metrics.Registry.Register(e.collector); err != nil {
		return fmt.Errorf("registering the metrics of plans: %w", err)
	}
	defer metrics.Registry.Unregister(e.collector)
	<-ctx.Done()
	return nil
}

// NeedLeaderElection tells the manager to start it on the leader only.
func (*exporter) NeedLeaderElection() bool { return true }
