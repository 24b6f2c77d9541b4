package assess

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// maxHistory is how many keys are remembered.
const maxHistory = 16

// history are the keys that all agreed on, oldest first.
type history struct {
	keys []v1alpha1.KeySeen
	// left is what the nodes had left before they returned to an earlier key; nil
	// while they have not.
	left *v1alpha1.KeySeen
}

// record adds what all agree on. An earlier key is not added again: as long as
// the nodes are on it, the newest entry is what they left.
func (f *facts) record() history {
	h := history{keys: slices.Clone(f.prev.KeyHistory)}
	k := f.agreement.key
	if k == nil {
		return h
	}
	seen := v1alpha1.KeySeen{KeyIDHash: k.KeyIDHash, TransitVersion: narrow(k.TransitVersion), FirstSeen: down(f.now), LastSeen: down(f.now)}
	if len(h.keys) == 0 {
		h.keys = []v1alpha1.KeySeen{seen}
		return h
	}
	newest := &h.keys[len(h.keys)-1]
	switch {
	case newest.KeyIDHash == seen.KeyIDHash:
		// Also when the clock was set back: from now on it is watched by that one.
		newest.LastSeen = seen.LastSeen
	case seen.TransitVersion <= newest.TransitVersion, slices.ContainsFunc(h.keys, func(k v1alpha1.KeySeen) bool { return k.KeyIDHash == seen.KeyIDHash }):
		h.left = newest
	default:
		h.keys = append(h.keys, seen)
	}
	h.keys = h.keys[max(0, len(h.keys)-maxHistory):]
	return h
}

// clock is since when the nodes are converged without a break.
type clock struct {
	since, safeAfter *metav1.Time // nil while they are not
}

// running reports whether the clock runs and has not reached its end.
func (f *facts) running() bool {
	return f.clock.since != nil && f.now.Before(f.clock.safeAfter.Time)
}

// rewritable reports whether the clock has reached its end.
func (f *facts) rewritable() bool { return f.clock.since != nil && !f.running() }

// settle goes on with the clock of the status, or starts it (see the package
// comment for what a break is).
func (f *facts) settle() clock {
	if !f.agreement.converged || f.history.left != nil || f.diverged != "" {
		return clock{}
	}
	since := up(f.now)
	if f.unbroken() {
		since = *f.prev.ConvergedSince
	}
	after := up(since.Add(max(0, f.plan.Spec.SettleTime.Duration)))
	return clock{&since, &after}
}

// unbroken reports whether the clock of the status goes on, given that the nodes
// are converged now.
func (f *facts) unbroken() bool {
	p := f.prev
	if p.ConvergedSince == nil || p.ActiveKeyIDHash != f.agreement.key.KeyIDHash || len(p.KeyHistory) == 0 {
		return false
	}
	// A clock beside any other reason is not one that was running: another writer's
	// value stayed there when the clock was taken away.
	safe := meta.FindStatusCondition(p.Conditions, v1alpha1.ConditionRewriteSafe)
	if safe == nil || safe.Reason != ReasonSettled && safe.Reason != ReasonSettling {
		return false
	}
	for _, n := range f.nodes {
		if n.prev == nil {
			return false
		}
	}
	unwatched := f.now.Sub(p.KeyHistory[len(p.KeyHistory)-1].LastSeen.Time)
	if safe.Status == metav1.ConditionTrue {
		return unwatched <= maxBehind+f.absence() || !f.registryMoved()
	}
	return unwatched <= f.absence()
}

// registryMoved reports whether a node's registry is another one than was told, and not the
// one that applying makes of that. Such a node may have encrypted with an older key
// meanwhile: its registry was restored, say, and promoted the key once more.
func (f *facts) registryMoved() bool {
	for _, n := range f.nodes {
		is := n.told.StateHash
		applied := n.prev.Retirement != nil && n.prev.Retirement.NextStateHash == is
		if is != n.prev.StateHash && !applied {
			return true
		}
	}
	return false
}

// absence is for how long the clock may go unwatched; a third of it is how often
// the status says that it is watched. Once it has ended that is said with other
// changes, or when maxBehind is over.
func (f *facts) absence() time.Duration { return max(f.maxAge, time.Minute) }

func (f *facts) rewatch() time.Duration { return (f.absence() / 3).Truncate(time.Second) }

// rewriteSafe: Converged without a break for settleTime.
func rewriteSafe(f *facts) verdict {
	switch {
	case len(f.nodes) == 0:
		return unknown(ReasonNoNodes, "There are no nodes. Correct spec.nodes.")
	case f.history.left != nil:
		return no(ReasonKeyReturned, "A rewrite would go back to an earlier key: see Degraded. Do not rewrite.")
	case f.diverged != "":
		return no(ReasonNodesDiverged, sentences("Do not rewrite.", f.diverged))
	case f.clock.since == nil:
		return no(ReasonNotConverged, sentences("Do not rewrite yet.", f.verdicts[v1alpha1.ConditionConverged].message))
	case f.running():
		return no(ReasonSettling, fmt.Sprintf("%s converged since %s. Do not rewrite before %s: until then an API server may still write with the older key.",
			f.all(), moment(f.clock.since.Time), moment(f.clock.safeAfter.Time)))
	}
	return yes(ReasonSettled, fmt.Sprintf("%s converged since %s, for %s or longer. Encrypted objects may be rewritten now.",
		f.all(), moment(f.clock.since.Time), f.plan.Spec.SettleTime.Duration))
}

// up and down are t in the whole seconds that the API keeps.
func up(t time.Time) metav1.Time {
	whole := t.UTC().Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return metav1.Time{Time: whole}
}

func down(t time.Time) metav1.Time { return metav1.Time{Time: t.UTC().Truncate(time.Second)} }
