package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestAnAccidentalRemoval: a Secret still under version 1 when that is retired
// cannot be read, and can again once the version is restored.
func TestAnAccidentalRemoval(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.join(promotes)
	n.writeSecret("left")
	n.writeSecret("moved")
	underOne := seal(t, n.provider)
	c.rotates(2, n)
	n.rewrites("moved")

	retire := []string{"retire-versions", "--before-version", "2"}
	applies(t, n.provider, plans(t, n.provider, retire...), retire...)
	wantDecrypt(t, n.provider, underOne, codes.NotFound)
	// A new API server has no seed in memory, and does not become ready on this.
	if err := n.api.Stop(); err != nil {
		t.Fatal(err)
	}
	broken := &node{c: c, provider: n.provider, api: stacktest.APIServer(t, stack.APIServerOptions{
		Etcd: c.etcd, CA: c.ca, EncryptionConfig: filepath.Join(n.provider.Files.Dir, "encryption.yaml"), ReadyPath: "/livez/ping",
	})}
	eventually(t, "what was moved is read", func() error { return broken.readSecret("moved") })
	if err := broken.readSecret("left"); err == nil || !strings.Contains(err.Error(), "decrypt") {
		t.Errorf("what was left behind: %v, want that it cannot be decrypted", err)
	}
	if err := broken.api.Stop(); err != nil {
		t.Fatal(err)
	}

	restore := []string{"restore-versions", "--versions", "1"}
	plan := plans(t, n.provider, restore...)
	if !slices.Equal(plan.RestoredVersions, []int{1}) {
		t.Errorf("the plan is %+v", plan)
	}
	applies(t, n.provider, plan, restore...)
	wantDecrypt(t, n.provider, underOne, codes.OK)
	c.restarts(n)
	n.mustReadSecret("left")
	n.mustReadSecret("moved")
}

// stopped is a provider's node with versions 1 (retired) and 2 (active), its
// provider stopped, and the plan of retiring version 1.
type stopped struct {
	t      *testing.T
	p      *stack.Provider
	before registryPair
	plan   *command.Change
	args   []string
}

func newStopped(t *testing.T) *stopped {
	t.Helper()
	return newStoppedOn(t, transit(t), promotes)
}

func newStoppedOn(t *testing.T, tr *stack.Transit, fields map[string]any) *stopped {
	t.Helper()
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{Fields: fields})
	if _, err := tr.Rotate(t.Context(), tr.Key()); err != nil {
		t.Fatal(err)
	}
	eventuallyActive(t, p, 2)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	plan := plans(t, p, "retire-versions", "--before-version", "2")
	return &stopped{t, p, pairOf(t, p), plan, applyOf(plan, "retire-versions", "--before-version", "2")}
}

// TestTwoAppliesAtOnce: one saves; the other is refused for the lock, or finds
// the plan applied.
func TestTwoAppliesAtOnce(t *testing.T) {
	t.Parallel()
	s := newStopped(t)
	outcomes := map[string]int{}
	for range 8 {
		s.before.write(t, s.p)
		var ends [2]answered
		var errs [2]error
		var both sync.WaitGroup
		for i := range ends {
			both.Go(func() { ends[i], errs[i] = operator(t.Context(), t, s.p, s.args...) })
		}
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		saved := 0
		for _, e := range ends {
			switch {
			case e.code == 0 && e.check("state.saved").Result == command.Pass:
				saved++
				outcomes["saved"]++
			case e.code == 0 && e.report.NextStateHash == s.plan.NextStateHash && e.report.StateHash == s.plan.NextStateHash:
				outcomes["applied already"]++
			case e.code == 4 && e.check("state.lock").Reason == "state_locked":
				outcomes["locked"]++
			default:
				t.Fatalf("an apply ends with %d: %+v\n%s", e.code, e.report.Checks, e.stderr)
			}
		}
		if saved != 1 || registryOf(t, s.p).Hash != s.plan.NextStateHash {
			t.Fatalf("%d applies saved, and the state is %s", saved, registryOf(t, s.p).Hash)
		}
	}
	t.Logf("%v", outcomes)
}

// kills is how many applies are killed.
const kills = 24

// TestAnApplyThatIsKilled: SIGKILL at any moment leaves the registry of before or
// the planned one; serve starts on it, and the same command, with both hashes, ends well.
func TestAnApplyThatIsKilled(t *testing.T) {
	t.Parallel()
	s := newStopped(t)
	began := time.Now()
	asks(t, s.p, 0, s.args...)
	whole := time.Since(began)
	after := pairOf(t, s.p)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d; an apply takes %v", seed, whole)
	random := rand.New(rand.NewPCG(seed, 0))
	found := map[string]int{}
	for i := range kills {
		s.before.write(t, s.p)
		ctx, kill := context.WithCancel(t.Context()) // exec kills with SIGKILL
		ended := make(chan error, 1)
		go func() {
			_, err := operator(ctx, t, s.p, s.args...)
			ended <- err
		}()
		// The moment is the experiment: anywhere, or around the save.
		if i%2 == 0 {
			<-time.After(time.Duration(random.Int64N(int64(whole))))
		} else {
			s.untilSaving(ctx, whole*4)
			<-time.After(time.Duration(random.IntN(1500)) * time.Microsecond)
		}
		kill()
		<-ended
		switch left := pairOf(t, s.p); left {
		case s.before:
			found["old"]++
		case after:
			found["new"]++
		case registryPair{after.state, s.before.checkpoint}:
			found["between"]++
		default:
			t.Fatalf("kill %d left a third document:\n%+v", i, left)
		}
		was := registryOf(t, s.p).Hash
		if err := s.p.Start(t.Context()); err != nil {
			t.Fatalf("serve after kill %d: %v", i, err)
		}
		eventuallyReady(t, s.p)
		if err := s.p.Stop(); err != nil {
			t.Fatal(err)
		}
		if left := pairOf(t, s.p); left != s.before && left != after || registryOf(t, s.p).Hash != was {
			t.Fatalf("serve after kill %d left %+v", i, left)
		}
		if a := asks(t, s.p, 0, s.args...); a.report.NextStateHash != s.plan.NextStateHash || pairOf(t, s.p) != after {
			t.Fatalf("the same command after kill %d ends with %+v", i, a.report.Change)
		}
	}
	t.Logf("found %v", found)
}

// untilSaving waits until the apply has begun to write, for a while.
func (s *stopped) untilSaving(ctx context.Context, most time.Duration) {
	deadline := time.Now().Add(most)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		if _, err := os.Lstat(s.p.Files.State + ".tmp"); err == nil {
			return
		}
	}
}
