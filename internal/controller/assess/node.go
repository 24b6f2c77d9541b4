package assess

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// clockTolerance is how far a node's clock may be ahead.
const clockTolerance = 30 * time.Second

// node is one node of the plan.
type node struct {
	name string
	// doubt is the code for why its report does not count, empty when it does.
	doubt string
	// silent is set when its provider does not answer the reporter now. The report
	// counts until it is too old, but nobody knows the node to be well.
	silent bool
	// seen is when the provider last answered; report what it said then, however
	// old: nil when that is not about this plan.
	seen   *metav1.Time
	report *report.NodeReport
	// answer is what it said of the retirement that the plan asks for.
	answer *v1alpha1.NodeRetirement
	// prev is what was told of it before; nil when it was no node of the plan.
	prev *v1alpha1.NodeStatus
	// told is what is told of it now, but for its retirement.
	told v1alpha1.NodeStatus
}

func (n *node) counts() bool { return n.doubt == "" }

// lookAt finds out whether and what a node tells.
func (f *facts) lookAt(name string, r *v1alpha1.KMSNodeReport, prev *v1alpha1.NodeStatus) *node {
	n := &node{name: name, prev: prev}
	switch {
	case r == nil:
		n.doubt = NodeReportMissing
	case r.Spec.ProviderName != f.plan.Spec.ProviderName:
		n.doubt = NodeReportOtherProvider
	case r.Status.Report == nil || r.Status.ObservedAt == nil:
		n.doubt = NodeReportEmpty
	case r.Status.Report.Provider.Name != f.plan.Spec.ProviderName:
		n.doubt = NodeReportOtherProvider
	default:
		n.seen, n.report = r.Status.ObservedAt, r.Status.Report
		n.silent = meta.IsStatusConditionFalse(r.Status.Conditions, v1alpha1.ConditionProviderReachable)
		switch {
		case n.seen.Sub(f.now) > clockTolerance:
			n.doubt = NodeReportFromFuture
		case f.now.Sub(n.seen.Time) >= f.maxAge:
			n.doubt = NodeReportTooOld
		}
	}
	if asked := f.plan.Spec.Retirement; n.report != nil && asked != nil {
		for i, a := range r.Status.RetirementPlans {
			if a.BeforeVersion == asked.BeforeVersion {
				n.answer = &r.Status.RetirementPlans[i]
			}
		}
	}
	n.told = n.tell()
	return n
}

// tell is the node's part of the status, but for its retirement. What the report
// does not say of key and registry stays as it was told before: it is what a
// return to an older registry is noticed by.
func (n *node) tell() v1alpha1.NodeStatus {
	s := v1alpha1.NodeStatus{Name: n.name}
	if p := n.prev; p != nil {
		s.KeyIDHash, s.TransitVersion = p.KeyIDHash, p.TransitVersion
		s.Generation, s.StateHash = p.Generation, p.StateHash
		s.ProviderVersion, s.LastSeen = p.ProviderVersion, p.LastSeen.DeepCopy()
		s.WentBackFrom = p.WentBackFrom.DeepCopy()
	}
	if r := n.report; r != nil {
		n.tellReport(&s, r)
	} else {
		s.RotationState = string(report.RotationUnknown)
	}
	switch {
	case !n.counts():
		s.Ready, s.Reasons = false, []string{n.doubt}
	case n.silent:
		s.Ready, s.Reasons = false, []string{NodeProviderUnreachable}
	}
	return s
}

func (n *node) tellReport(s *v1alpha1.NodeStatus, r *report.NodeReport) {
	s.Ready, s.Reasons = r.Readiness.Ready, slices.Clone(r.Readiness.Reasons)
	s.RotationState = string(r.Rotation.State)
	s.PersistenceDegraded = r.Readiness.PersistenceDegraded
	s.ProviderVersion = r.Provider.Version
	s.Preflight = &v1alpha1.NodePreflight{Result: string(r.Preflight.Result)}
	for _, c := range r.Preflight.Checks {
		if c.Result == report.Fail {
			s.Preflight.Failed = append(s.Preflight.Failed, c.ID)
		}
	}
	if p := r.Rotation.Pending; p != nil {
		s.Pending = &v1alpha1.NodePending{Version: narrow(p.TransitVersion), Observations: narrow(p.Observations),
			Required: narrow(p.Required), Stable: p.Stable}
		if at, ok := p.EstimatedPromotion.Time(); ok {
			s.Pending.EstimatedPromotion = &metav1.Time{Time: at}
		}
	}
	if n.outrun() {
		return
	}
	if n.doubt != NodeReportFromFuture {
		// Else all that the node says with a right clock would be outrun.
		s.LastSeen = n.seen.DeepCopy()
	}
	if r.Registry == nil || r.ActiveKey == nil {
		return
	}
	s.KeyIDHash, s.TransitVersion = r.ActiveKey.KeyIDHash, narrow(r.ActiveKey.TransitVersion)
	s.Generation = int64(min(r.Registry.Generation, math.MaxInt64))
	s.StateHash, s.Checkpoint = r.Registry.StateHash, string(r.Registry.Checkpoint)
	s.WentBackFrom = n.wentBackFrom(s)
}

// outrun reports whether the report is older than what was told before. It comes
// from a cache that lags behind, or from a node whose clock was set back, as when a
// machine is reverted to a snapshot, registry and all. Which of them it is, the next
// report shows, if what was told of key and registry is still there to compare with.
func (n *node) outrun() bool {
	return n.prev != nil && n.prev.LastSeen != nil && n.seen.Before(n.prev.LastSeen)
}

// wentBackFrom is the newest registry that the node was seen with, when the
// present one is not that or a later one.
func (n *node) wentBackFrom(s *v1alpha1.NodeStatus) *v1alpha1.RegistryMark {
	p := n.prev
	if p == nil || p.Generation == 0 {
		return nil
	}
	mark := p.WentBackFrom.DeepCopy()
	if mark == nil {
		mark = &v1alpha1.RegistryMark{Generation: p.Generation, StateHash: p.StateHash, TransitVersion: p.TransitVersion}
	}
	if s.Generation < mark.Generation || s.TransitVersion < mark.TransitVersion ||
		s.Generation == mark.Generation && s.StateHash != mark.StateHash {
		return mark
	}
	return nil
}

// key is the key that the node encrypts with, as its report says, and whether it
// says one.
func (n *node) key() (report.Key, bool) {
	if n.report == nil || n.report.ActiveKey == nil || n.report.Registry == nil {
		return report.Key{}, false
	}
	return *n.report.ActiveKey, true
}

// settled reports whether the node encrypts with k for good: it says so itself, it
// is ready, and nothing is pending.
func (n *node) settled(k report.Key) bool {
	own, ok := n.key()
	return ok && own == k && n.counts() && n.told.Ready && n.told.Pending == nil && n.told.RotationState == string(report.RotationActive)
}

// narrow brings a version or a count into the API's range.
func narrow(n int) int32 { return int32(max(0, min(n, math.MaxInt32))) }
