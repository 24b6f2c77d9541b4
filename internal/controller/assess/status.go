package assess

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

const (
	// maxBehind is how far lastSeen of a node may be behind while nothing else
	// changes: a healthy fleet's heartbeats are no reason to write every plan.
	maxBehind = 10 * time.Minute
	// sameMoment is how far two estimates of one promotion may be apart: a node
	// counts from its clock at each report.
	sameMoment = 5 * time.Second
)

// status puts together what has been judged.
func (f *facts) status() v1alpha1.KMSRotationPlanStatus {
	s := v1alpha1.KMSRotationPlanStatus{
		ObservedGeneration: f.plan.Generation,
		Phase:              f.phase,
		ConvergedSince:     f.clock.since,
		RewriteSafeAfter:   f.clock.safeAfter,
		KeyHistory:         f.history.keys,
		Summary:            f.summary(),
	}
	if k := f.agreement.key; k != nil {
		s.ActiveKeyIDHash, s.ActiveTransitVersion = k.KeyIDHash, narrow(k.TransitVersion)
	}
	held := f.retirement != nil && f.sayHeld() != ""
	for _, n := range f.nodes {
		told := n.told
		if f.retirement != nil {
			told.Retirement = f.retirement.tell(n.name, held)
		}
		s.Nodes = append(s.Nodes, told)
	}
	if f.retirement != nil {
		s.Retirement = f.retirement.status()
	}
	for _, p := range policies {
		s.Conditions = append(s.Conditions, f.condition(p.condition))
	}
	return s
}

// condition is a judged condition; its time is that of the last change of its
// status.
func (f *facts) condition(name string) metav1.Condition {
	v := f.verdicts[name]
	c := metav1.Condition{Type: name, Status: v.status, Reason: v.reason, Message: clipped(v.message),
		ObservedGeneration: f.plan.Generation, LastTransitionTime: down(f.now)}
	for _, p := range f.prev.Conditions {
		if p.Type == name && p.Status == v.status {
			c.LastTransitionTime = p.LastTransitionTime
		}
	}
	return c
}

// status is the retirement across all nodes.
func (r *retirement) status() *v1alpha1.RetirementStatus {
	s := &v1alpha1.RetirementStatus{BeforeVersion: r.spec.BeforeVersion, Digest: r.digest, ApprovedDigest: r.counted,
		ChangedNodes: r.changed, Evidence: r.evidence.DeepCopy()}
	for _, p := range r.parts {
		if p.values != nil {
			s.NodesPlanned++
		}
		if p.applied {
			s.NodesApplied++
		}
	}
	return s
}

// tell is one node's part, without its command when the next step is held.
func (r *retirement) tell(name string, held bool) *v1alpha1.NodeRetirementStatus {
	p := r.parts[name]
	s := &v1alpha1.NodeRetirementStatus{Problem: p.problem}
	if _, changed := slices.BinarySearch(r.changed, name); changed && !p.joined {
		s.State = v1alpha1.RetirementChanged
	}
	v := p.values
	if v == nil {
		return s
	}
	s.RemovedVersions, s.StateHash, s.NextStateHash = v.removed, v.stateHash, v.nextStateHash
	s.NextGeneration, s.ActiveKeyIDHash = v.nextGeneration, v.activeKeyIDHash
	switch {
	case p.applied:
		s.State = v1alpha1.RetirementApplied
	case s.State == "":
		s.State = v1alpha1.RetirementPlanned
	}
	if r.approved && !p.applied && !held {
		s.Command = fmt.Sprintf("bao-kms-provider retire-versions --before-version %d --apply --expected-state-hash %s --expected-next-state-hash %s",
			r.spec.BeforeVersion, v.stateHash, v.nextStateHash)
	}
	return s
}

// steady is the status that was there when nothing in the new one is worth a
// write: moments that every heartbeat moves are kept until something else changes
// or they are too far behind.
func (f *facts) steady(s v1alpha1.KMSRotationPlanStatus) v1alpha1.KMSRotationPlanStatus {
	behind := false
	kept := s.DeepCopy()
	for i := range kept.Nodes {
		p := f.nodes[i].prev
		if p == nil {
			continue
		}
		n := &kept.Nodes[i]
		if n.LastSeen != nil && p.LastSeen != nil {
			behind = behind || n.LastSeen.Sub(p.LastSeen.Time).Abs() >= maxBehind
			n.LastSeen = p.LastSeen
		}
		if n.Pending != nil && p.Pending != nil && near(n.Pending.EstimatedPromotion, p.Pending.EstimatedPromotion) {
			n.Pending.EstimatedPromotion = p.Pending.EstimatedPromotion
			s.Nodes[i].Pending.EstimatedPromotion = p.Pending.EstimatedPromotion.DeepCopy()
		}
	}
	if last := len(kept.KeyHistory) - 1; last >= 0 && len(f.prev.KeyHistory) == last+1 {
		was := f.prev.KeyHistory[last].LastSeen
		watched := kept.KeyHistory[last].LastSeen.Sub(was.Time)
		behind = behind || f.running() && (watched >= f.rewatch() || watched < 0)
		kept.KeyHistory[last].LastSeen = was
	}
	if !behind && equality.Semantic.DeepEqual(kept, f.prev) {
		return *f.prev.DeepCopy()
	}
	return s
}

func near(a, b *metav1.Time) bool {
	return a != nil && b != nil && a.Sub(b.Time).Abs() <= sameMoment
}

// next is the next moment at which time alone could change the status.
func (f *facts) next(s *v1alpha1.KMSRotationPlanStatus) time.Time {
	var next time.Time
	at := func(t time.Time) {
		if t.After(f.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, n := range f.nodes {
		switch n.doubt {
		case "":
			at(n.seen.Add(f.maxAge))
		case NodeReportFromFuture:
			at(n.seen.Add(-clockTolerance))
		}
	}
	if f.running() {
		at(f.clock.safeAfter.Time)
		// The status says that the clock is watched.
		at(s.KeyHistory[len(s.KeyHistory)-1].LastSeen.Add(f.rewatch()))
	}
	return next
}
