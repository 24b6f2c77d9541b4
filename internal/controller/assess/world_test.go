package assess_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/assess"
	"github.com/baokms/baokms/internal/report"
)

const provider = "openbao-kms-workload-a"

var start = time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)

// machine is one node with a registry of its own, and its reporter.
type machine struct {
	name       string
	generation uint64
	history    string // what its state hash is of
	active     int
	pending    int
	removed    []int
	reasons    []string
	seen       time.Time
	checks     map[string]report.Result
	key        string // what its key_id hashes are of: other than "" for another key
	former     string // the same, of the versions that it no longer encrypts with
	refusal    *report.Problem
	unasked    bool // its reporter has not asked for a retirement plan
	provider   string
	starting   bool // it has no registry yet
}

func (m *machine) save(what string) {
	m.generation++
	m.history += "/" + what
}

func stateHash(of string) string {
	sum := sha256.Sum256([]byte(of))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func keyHash(key string, version int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s v%d", key, version))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (m *machine) observe(version int) { m.pending = version; m.save(fmt.Sprint("observe ", version)) }
func (m *machine) promote()            { m.active, m.pending = m.pending, 0; m.save("promote") }
func (m *machine) toRemove(before int) []int {
	versions := []int{}
	for v := 1; v < before && v < m.active; v++ {
		if !slices.Contains(m.removed, v) {
			versions = append(versions, v)
		}
	}
	return versions
}

func (m *machine) retire(before int) {
	if gone := m.toRemove(before); len(gone) > 0 {
		m.removed = append(m.removed, gone...)
		m.save(fmt.Sprint("retire ", gone))
	}
}

func (m *machine) restore() { m.removed = nil; m.save("restore") }

// plan is what the node's provider answers.
func (m *machine) plan(before int) *report.RetirementPlan {
	gone := m.toRemove(before)
	p := &report.RetirementPlan{APIVersion: report.APIVersion, Kind: report.KindRetirementPlan, BeforeVersion: before, RemovedVersions: gone,
		ActiveKeyIDHash: keyHash(m.key, m.active), StateHash: stateHash(m.history), NextGeneration: m.generation, NextStateHash: stateHash(m.history)}
	if len(gone) > 0 {
		p.NextGeneration++
		p.NextStateHash = stateHash(m.history + fmt.Sprint("/retire ", gone))
	}
	return p
}

func (m *machine) snapshots() []report.Snapshot {
	s := []report.Snapshot{}
	for v := 1; v <= max(m.active, m.pending); v++ {
		state := report.SnapshotRetired
		switch {
		case v == m.active:
			state = report.SnapshotActive
		case v == m.pending:
			state = report.SnapshotPending
		case slices.Contains(m.removed, v):
			state = report.SnapshotRemoved
		}
		key := m.key
		if v < m.active {
			key += m.former
		}
		s = append(s, report.Snapshot{Key: report.Key{KeyIDHash: keyHash(key, v), TransitVersion: v}, State: state})
	}
	return s
}

// report is the node's KMSNodeReport.
func (m *machine) report(before int) *v1alpha1.KMSNodeReport {
	r := &report.NodeReport{APIVersion: report.APIVersion, Kind: report.KindNodeReport, GeneratedAt: report.At(m.seen),
		Provider:  report.Provider{Name: m.provider, Version: "1.0.0"},
		Readiness: report.Readiness{Ready: len(m.reasons) == 0, Reasons: append([]string{}, m.reasons...)},
		Rotation:  report.Rotation{State: report.RotationUnknown}, Snapshots: []report.Snapshot{}}
	if !m.starting {
		r.ActiveKey = &report.Key{KeyIDHash: keyHash(m.key, m.active), TransitVersion: m.active}
		r.Registry = &report.Registry{Generation: m.generation, StateHash: stateHash(m.history), Checkpoint: report.CheckpointConfirmed}
		r.Rotation.State = report.RotationActive
		r.Snapshots = m.snapshots()
	}
	if m.pending != 0 {
		r.Rotation = report.Rotation{State: report.RotationPending, Pending: &report.Pending{Key: report.Key{KeyIDHash: keyHash(m.key, m.pending), TransitVersion: m.pending},
			Observations: 3, Required: 3, Stable: true, EstimatedPromotion: report.At(m.seen.Add(time.Minute))}}
	}
	for _, id := range report.CheckIDs {
		c := report.Check{ID: id, Result: report.Pass, Basis: report.BasisMemory}
		if result, ok := m.checks[id]; ok {
			c.Result, c.Reason, c.Message, c.NextStep = result, "reason", "message", "next step"
		}
		r.Preflight.Checks = append(r.Preflight.Checks, c)
	}
	r.Preflight.Result = report.Worst(r.Preflight.Checks)
	k := &v1alpha1.KMSNodeReport{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Spec: v1alpha1.KMSNodeReportSpec{ProviderName: m.provider}}
	k.Status.ObservedAt, k.Status.Report = &metav1.Time{Time: m.seen}, r
	if before != 0 && !m.unasked {
		told := v1alpha1.NodeRetirement{BeforeVersion: int32(before), Problem: m.refusal}
		if m.refusal == nil {
			told.Plan = m.plan(before)
		}
		k.Status.RetirementPlans = []v1alpha1.NodeRetirement{{BeforeVersion: 77, Problem: &report.Problem{Reason: "other"}}, told}
	}
	return k
}

// tester is a test, or one case of a property.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// world is a plan, its machines, and the moment. It feeds every status back.
type world struct {
	t        tester
	plan     *v1alpha1.KMSRotationPlan
	others   []*v1alpha1.KMSRotationPlan
	machines map[string]*machine
	now      time.Time
	out      assess.Output
}

// newWorld has three nodes on version 3, which know versions 1 and 2.
func newWorld(t tester) *world {
	w := &world{t: t, machines: map[string]*machine{}, now: start, plan: &v1alpha1.KMSRotationPlan{
		ObjectMeta: metav1.ObjectMeta{Name: "workload-a-2026q4", Generation: 1},
		Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: provider, ReportMaxAge: metav1.Duration{Duration: 3 * time.Minute},
			SettleTime: metav1.Duration{Duration: 5 * time.Minute}},
	}}
	for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
		w.join(name)
	}
	return w
}

func (w *world) join(name string) *machine {
	m := &machine{name: name, history: name, generation: 7, active: 3, provider: provider, seen: w.now}
	w.machines[name] = m
	return m
}

func (w *world) asksRetirement(before int32) *world {
	w.plan.Spec.Retirement = &v1alpha1.Retirement{BeforeVersion: before}
	return w
}

func (w *world) approve() {
	w.t.Helper()
	if w.plan.Status.Retirement == nil || w.plan.Status.Retirement.Digest == "" {
		w.t.Fatalf("there is no digest to approve: %+v", w.plan.Status.Retirement)
	}
	w.plan.Generation++
	w.plan.Spec.Retirement.Evidence = &v1alpha1.Evidence{Rewrite: "CHG-1042", Backups: "CHG-1043"}
	w.plan.Spec.Retirement.ApprovedDigest = w.plan.Status.Retirement.Digest
}

func (w *world) input() assess.Input {
	in := assess.Input{Plan: w.plan.DeepCopy(), Reports: map[string]*v1alpha1.KMSNodeReport{}, Others: w.others, Now: w.now}
	before := 0
	if w.plan.Spec.Retirement != nil {
		before = int(w.plan.Spec.Retirement.BeforeVersion)
	}
	for name, m := range w.machines {
		in.Nodes = append(in.Nodes, name)
		in.Reports[name] = m.report(before)
	}
	slices.Sort(in.Nodes)
	return in
}

// take judges an input and feeds the status back as the API would keep it.
func (w *world) take(in assess.Input) *v1alpha1.KMSRotationPlanStatus {
	w.t.Helper()
	w.out = assess.Assess(in)
	doc, err := json.Marshal(w.out.Status)
	if err != nil {
		w.t.Fatal(err)
	}
	w.plan.Status = v1alpha1.KMSRotationPlanStatus{}
	if err := json.Unmarshal(doc, &w.plan.Status); err != nil {
		w.t.Fatal(err)
	}
	return &w.plan.Status
}

// judge judges what there is.
func (w *world) judge() *v1alpha1.KMSRotationPlanStatus {
	w.t.Helper()
	return w.take(w.input())
}

// pass lets time pass by steps of half a minute; all but the silent nodes report.
func (w *world) pass(d time.Duration, silent ...string) *v1alpha1.KMSRotationPlanStatus {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(30*time.Second, end.Sub(w.now)))
		w.report(silent...)
		w.judge()
	}
	return &w.plan.Status
}

func (w *world) report(silent ...string) {
	for name, m := range w.machines {
		if !slices.Contains(silent, name) {
			m.seen = w.now
		}
	}
}

// approved is a world in which an approval counts.
func approved(t tester) *world {
	t.Helper()
	w := newWorld(t).asksRetirement(3)
	w.judge()
	w.pass(5 * time.Minute)
	w.approve()
	w.judge()
	w.wants(v1alpha1.ConditionRetirementApproved, metav1.ConditionTrue, assess.ReasonApproved)
	return w
}

// retired is a world in which every node has applied.
func retired(t tester) *world {
	t.Helper()
	w := approved(t)
	for _, m := range w.machines {
		m.retire(3)
	}
	w.pass(30 * time.Second)
	w.wantPhase(v1alpha1.Retired)
	return w
}

func condition(t tester, s *v1alpha1.KMSRotationPlanStatus, name string) metav1.Condition {
	t.Helper()
	for _, c := range s.Conditions {
		if c.Type == name {
			return c
		}
	}
	t.Fatalf("there is no condition %s", name)
	return metav1.Condition{}
}

// wants holds a condition's status, reason and parts of its message.
func (w *world) wants(name string, status metav1.ConditionStatus, reason string, says ...string) {
	w.t.Helper()
	c := condition(w.t, &w.plan.Status, name)
	if c.Status != status || c.Reason != reason {
		w.t.Errorf("%s is %s, %s, want %s, %s: %s", name, c.Status, c.Reason, status, reason, c.Message)
	}
	for _, part := range says {
		if !strings.Contains(c.Message, part) {
			w.t.Errorf("%s does not say %q: %s", name, part, c.Message)
		}
	}
}

func (w *world) wantPhase(want v1alpha1.Phase) {
	w.t.Helper()
	if got := w.plan.Status.Phase; got != want {
		w.t.Errorf("phase %s, want %s", got, want)
	}
	if c := condition(w.t, &w.plan.Status, v1alpha1.ConditionReady); c.Reason != string(want) {
		w.t.Errorf("Ready has reason %s, want %s", c.Reason, want)
	}
}

func (w *world) node(name string) *v1alpha1.NodeStatus {
	w.t.Helper()
	for i := range w.plan.Status.Nodes {
		if w.plan.Status.Nodes[i].Name == name {
			return &w.plan.Status.Nodes[i]
		}
	}
	w.t.Fatalf("there is no node %s in the status", name)
	return nil
}
