// Package lifetest gives tests the life of a KMSRotationPlan as package assess judges it, so that what is made for Argo CD, Flux,
// kube-state-metrics and Grafana is held against statuses that the manager writes and not against invented ones. It has no I/O and no clock
// of its own. Only tests may use it.
package lifetest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

// Provider is the name of every node's provider.
const Provider = "openbao-kms-workload-a"

// The settings of the plan.
const (
	Settle = 5 * time.Minute
	MaxAge = 3 * time.Minute
)

// Stage is a plan at one moment, with the reports that it was judged by.
type Stage struct {
	// Name is what has happened last.
	Name string
	// Phase is what the plan must be in.
	Phase   v1alpha1.Phase
	Plan    *v1alpha1.KMSRotationPlan
	Reports []*v1alpha1.KMSNodeReport
}

// machine is one node.
type machine struct {
	name            string
	key             string // what its key_ids are of
	active, pending int
	generation      uint64
	removed         int // versions up to it are removed
	silent          bool
}

// life is a plan, its nodes and the moment.
type life struct {
	t        testing.TB
	now      time.Time
	plan     *v1alpha1.KMSRotationPlan
	machines []*machine
	stages   []Stage
}

// Stages is the life of a plan of the nodes cp-1, cp-2 and cp-3, from nothing to retired; it begins at start, a whole second. Every stage has a plan of its own.
func Stages(t testing.TB, start time.Time) []Stage {
	t.Helper()
	l := &life{t: t, now: start, plan: &v1alpha1.KMSRotationPlan{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "KMSRotationPlan"},
		ObjectMeta: metav1.ObjectMeta{Name: "plan", Generation: 1},
		Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: Provider, Nodes: v1alpha1.NodeSet{Names: []string{"cp-1", "cp-2", "cp-3"}},
			TargetTransitVersion: new(int32(3)), ReportMaxAge: metav1.Duration{Duration: MaxAge}, SettleTime: metav1.Duration{Duration: Settle}},
	}}
	l.judge("no report yet", v1alpha1.Observing)
	for i := range 3 {
		l.machines = append(l.machines, &machine{name: fmt.Sprintf("cp-%d", i+1), active: 2, pending: 3, generation: 4})
	}
	l.judge("version 3 is pending", v1alpha1.Rotating)
	for _, m := range l.machines[:2] {
		m.promote()
	}
	l.judge("two nodes have promoted", v1alpha1.Rotating)
	l.machines[2].promote()
	l.judge("all have promoted", v1alpha1.Settling)
	l.pass(Settle)
	l.judge("all agree for long enough", v1alpha1.RewriteSafe)

	before := l.copy()
	before.machines[2].silent = true
	before.pass(MaxAge)
	before.judge("a node is silent", v1alpha1.Observing)
	before.machines[2].silent = false
	before.machines[2].key = "another"
	before.judge("a node has another key", v1alpha1.Degraded)
	l.stages = before.stages

	l.asksRetirement()
	l.judge("retirement is asked for", v1alpha1.AwaitingReview)
	l.approve()
	l.judge("it is approved", v1alpha1.Approved)
	lapsed := l.copy()
	lapsed.machines[1].generation += 2
	lapsed.judge("the approval has lapsed", v1alpha1.Degraded)
	l.stages = lapsed.stages
	l.machines[0].retire()
	l.judge("one node has applied it", v1alpha1.Applying)
	l.machines[1].retire()
	l.machines[2].retire()
	l.judge("all have applied it", v1alpha1.Retired)
	return l.stages
}

// copy is the same life, to go another way from here.
func (l *life) copy() *life {
	c := *l
	c.plan, c.machines = l.plan.DeepCopy(), nil
	for _, m := range l.machines {
		c.machines = append(c.machines, new(*m))
	}
	return &c
}

// pass lets time pass, judged twice a minute as the manager would.
func (l *life) pass(d time.Duration) {
	l.t.Helper()
	for end := l.now.Add(d); l.now.Before(end); {
		l.now = l.now.Add(30 * time.Second)
		l.assess()
	}
}

// judge keeps a stage.
func (l *life) judge(name string, phase v1alpha1.Phase) {
	l.t.Helper()
	reports := l.assess()
	if l.plan.Status.Phase != phase {
		l.t.Fatalf("%s: the plan is %s, want %s", name, l.plan.Status.Phase, phase)
	}
	s := Stage{Name: name, Phase: phase, Plan: l.plan.DeepCopy()}
	for _, m := range l.machines {
		s.Reports = append(s.Reports, reports[m.name].DeepCopy())
	}
	l.stages = append(l.stages, s)
}

// assess feeds the status back as the API would keep it, and returns the reports.
func (l *life) assess() map[string]*v1alpha1.KMSNodeReport {
	l.t.Helper()
	in := assess.Input{Plan: l.plan.DeepCopy(), Nodes: l.plan.Spec.Nodes.Names, Reports: map[string]*v1alpha1.KMSNodeReport{}, Now: l.now}
	for _, m := range l.machines {
		in.Reports[m.name] = l.report(m)
	}
	out := assess.Assess(in)
	text, err := json.Marshal(out.Status)
	if err != nil {
		l.t.Fatal(err)
	}
	l.plan.Status = v1alpha1.KMSRotationPlanStatus{}
	if err := json.Unmarshal(text, &l.plan.Status); err != nil {
		l.t.Fatal(err)
	}
	return in.Reports
}

func (l *life) asksRetirement() {
	l.plan.Generation++
	l.plan.Spec.Retirement = &v1alpha1.Retirement{BeforeVersion: 3}
}

func (l *life) approve() {
	l.plan.Generation++
	l.plan.Spec.Retirement.Evidence = &v1alpha1.Evidence{Rewrite: "CHG-1042", Backups: "CHG-1043"}
	l.plan.Spec.Retirement.ApprovedDigest = l.plan.Status.Retirement.Digest
}

func (m *machine) promote() { m.active, m.pending = m.pending, 0; m.generation++ }
func (m *machine) retire()  { m.removed = m.active - 1; m.generation++ }

// stateHash is of the node's registry at a generation.
func (m *machine) stateHash(generation uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", m.name, generation))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// KeyHash is h(key_id) of a version of the key that all nodes use.
func KeyHash(version int) string { return keyHash("", version) }

func keyHash(key string, version int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s v%d", key, version))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// report is what the node's reporter writes.
func (l *life) report(m *machine) *v1alpha1.KMSNodeReport {
	seen := l.now
	if m.silent {
		seen = l.now.Add(-MaxAge - time.Minute)
	}
	key := func(v int) report.Key { return report.Key{KeyIDHash: keyHash(m.key, v), TransitVersion: v} }
	r := &report.NodeReport{
		APIVersion: report.APIVersion, Kind: report.KindNodeReport, GeneratedAt: report.At(seen),
		Provider:  report.Provider{Name: Provider, Version: "v1.2.3", Fingerprint: "cfg1." + keyHash("fingerprint", 0)},
		Readiness: report.Readiness{Ready: true, Reasons: []string{}},
		ActiveKey: new(key(m.active)), Rotation: report.Rotation{State: report.RotationActive},
		Registry: &report.Registry{Generation: m.generation, StateHash: m.stateHash(m.generation), Checkpoint: report.CheckpointConfirmed},
	}
	if m.pending != 0 {
		r.Rotation = report.Rotation{State: report.RotationPending, Pending: &report.Pending{Key: key(m.pending), Observations: 3, Required: 3,
			Stable: true, EstimatedPromotion: report.At(seen.Add(time.Minute))}}
	}
	for v := 1; v <= max(m.active, m.pending); v++ {
		state := report.SnapshotRetired
		switch {
		case v == m.active:
			state = report.SnapshotActive
		case v == m.pending:
			state = report.SnapshotPending
		case v <= m.removed:
			state = report.SnapshotRemoved
		}
		r.Snapshots = append(r.Snapshots, report.Snapshot{Key: key(v), State: state})
	}
	for _, id := range report.CheckIDs {
		r.Preflight.Checks = append(r.Preflight.Checks, report.Check{ID: id, Result: report.Pass, Basis: report.BasisMemory})
	}
	r.Preflight.Confidence, r.Preflight.Result, r.Preflight.CannotKnow = report.ConfidenceLimited, report.Worst(r.Preflight.Checks), []string{}
	k := &v1alpha1.KMSNodeReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "KMSNodeReport"},
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Generation: 1}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: Provider},
	}
	k.Status.ObservedAt, k.Status.Report = &metav1.Time{Time: seen}, r
	k.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProviderReachable, Status: metav1.ConditionTrue, Reason: "Answering",
		Message: "the provider answers on its report socket", LastTransitionTime: metav1.Time{Time: seen}, ObservedGeneration: 1}}
	if l.plan.Spec.Retirement != nil {
		k.Status.RetirementPlans = []v1alpha1.NodeRetirement{{BeforeVersion: l.plan.Spec.Retirement.BeforeVersion, Plan: l.retirement(m)}}
	}
	return k
}

// retirement is what retiring below the plan's version would do on a node.
func (l *life) retirement(m *machine) *report.RetirementPlan {
	p := &report.RetirementPlan{APIVersion: report.APIVersion, Kind: report.KindRetirementPlan,
		BeforeVersion: int(l.plan.Spec.Retirement.BeforeVersion), RemovedVersions: []int{}, ActiveKeyIDHash: keyHash(m.key, m.active),
		StateHash: m.stateHash(m.generation), NextGeneration: m.generation, NextStateHash: m.stateHash(m.generation)}
	for v := m.removed + 1; v < p.BeforeVersion; v++ {
		p.RemovedVersions = append(p.RemovedVersions, v)
	}
	if len(p.RemovedVersions) > 0 {
		p.NextGeneration++
		p.NextStateHash = m.stateHash(p.NextGeneration)
	}
	return p
}
