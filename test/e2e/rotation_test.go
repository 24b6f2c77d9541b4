package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// slow makes the API server wait for what it checks once a minute.
const slow = 3 * time.Minute

// eventuallyWrites waits until a Secret that is written through n carries keyID:
// the API server asks for Status about once a minute, and keeps its seed until
// then.
func (n *node) eventuallyWrites(prefix, keyID string) {
	n.c.t.Helper()
	deadline := time.Now().Add(slow)
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		n.writeSecret(name)
		if n.c.raw(name).KeyID == keyID {
			return
		}
		if time.Now().After(deadline) {
			n.c.t.Fatalf("the API server does not use the new key_id after %v", slow)
		}
		select {
		case <-n.c.t.Context().Done():
			n.c.t.Fatal("the test has ended")
		case <-time.After(2 * time.Second):
		}
	}
}

// TestARotation: rotate in Transit, watch the provider observe and promote, and
// rewrite the cluster's data under the new key.
func TestARotation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	// Long enough pending to be seen so, also by who is busy.
	n := c.join(map[string]any{"rotation.activationDelay": "5s"})
	names := []string{"a", "b", "c"}
	for _, name := range names {
		n.writeSecret(name)
	}
	old := registryOf(t, n.provider).active()

	// The API server writes an unchanged object only when it is stale. Before the
	// rotation it is not.
	fresh := c.raw("a")
	if err := n.rewrite("a"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.raw("a").Data, fresh.Data) {
		t.Error("an unchanged Secret was written again although its key is current")
	}

	if _, err := c.transit.Rotate(t.Context(), c.transit.Key()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "version 2 is pending", func() error {
		now := registryOf(t, n.provider)
		if got := now.version(2).State; got != "pending" {
			return fmt.Errorf("version 2 is %q", got)
		}
		if got := now.active(); got != old {
			t.Errorf("active is %+v while version 2 waits, want %+v", got, old)
		}
		return nil
	})
	eventuallyActive(t, n.provider, 2)
	now := registryOf(t, n.provider)
	if got := now.version(1).State; got != "retired" {
		t.Errorf("version 1 is %q, want retired", got)
	}

	// What was written before is stale now, and still reads.
	for _, name := range names {
		if got := c.raw(name).KeyID; got != old.KeyID {
			t.Errorf("Secret %s was rewritten by nobody and has key_id %s", name, got)
		}
		n.mustReadSecret(name)
	}
	n.eventuallyWrites("new", now.active().KeyID)
	for _, name := range names {
		if err := n.rewrite(name); err != nil {
			t.Fatal(err)
		}
		if got := c.raw(name); got.KeyID != now.active().KeyID || string(got.Annotations["transit-key-version.kms.openbao.org"]) != "2" {
			t.Errorf("Secret %s has key_id %s after the rewrite", name, got.KeyID)
		}
	}
	if err := n.api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		n.mustReadSecret(name)
	}
}

// TestAFleet: three API servers with three providers and three registries share
// one etcd. One promotes long before the others; everything that any of them
// writes must at all times be readable through all of them.
func TestAFleet(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	early := map[string]any{"rotation.requireStableObservationCount": 1, "rotation.activationDelay": "1ms"}
	// The late ones wait until they are told otherwise: no clock decides who is late.
	late := map[string]any{"rotation.activationDelay": "1h"}
	c.join(early)
	c.join(late)
	c.join(late)

	written := 0
	writeAndReadEverywhere := func() {
		t.Helper()
		for i, n := range c.nodes {
			name := fmt.Sprintf("s%d-%d", i, written)
			written++
			n.writeSecret(name)
			for j, other := range c.nodes {
				if err := other.readSecret(name); err != nil {
					t.Fatalf("written through node %d, read through node %d: %v", i, j, err)
				}
			}
		}
	}
	writeAndReadEverywhere()
	// Through the API servers of the late nodes, which are not restarted before
	// the end, somebody reads all the time, also while their providers are.
	readers := c.readAllTheTime("s0-0", c.nodes[1:])

	if _, err := c.transit.Rotate(t.Context(), c.transit.Key()); err != nil {
		t.Fatal(err)
	}
	eventuallyActive(t, c.nodes[0].provider, 2)
	first := registryOf(t, c.nodes[0].provider).active()
	// A restart makes the API server take the new key at once instead of within
	// its minute.
	if err := c.nodes[0].api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	writeAndReadEverywhere()
	for i, n := range c.nodes[1:] {
		eventually(t, fmt.Sprintf("version 2 is pending on node %d", i+1), func() error {
			now := registryOf(t, n.provider)
			if got := now.active().Version; got != 1 {
				t.Errorf("node %d has version %d active before its time", i+1, got)
			}
			if got := now.version(2).State; got != "pending" {
				return fmt.Errorf("version 2 is %q", got)
			}
			return nil
		})
		if err := n.provider.Files.WriteConfig(c.transit, early); err != nil {
			t.Fatal(err)
		}
		if err := n.provider.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.nodes {
		eventuallyActive(t, n.provider, 2)
		if got := registryOf(t, n.provider).active(); got.KeyID != first.KeyID {
			t.Errorf("two nodes derive two key_ids for one version: %s and %s", got.KeyID, first.KeyID)
		}
	}
	if reads := readers.stop(); reads == 0 {
		t.Error("nobody read during the rotation")
	}
	for _, n := range c.nodes {
		if err := n.api.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	writeAndReadEverywhere()
	for i := range written {
		for _, n := range c.nodes {
			n.mustReadSecret(fmt.Sprintf("s%d-%d", i%len(c.nodes), i))
		}
	}
}

// readers read one Secret again and again until stop, which returns how often.
type readers struct {
	end     context.CancelFunc
	running sync.WaitGroup
	reads   atomic.Int64
}

func (c *cluster) readAllTheTime(name string, nodes []*node) *readers {
	ctx, end := context.WithCancel(c.t.Context())
	r := &readers{end: end}
	for i, n := range nodes {
		r.running.Go(func() {
			for ctx.Err() == nil {
				if err := n.readSecret(name); err != nil {
					c.t.Errorf("a read through late node %d failed: %v", i, err)
					return
				}
				r.reads.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond): // what reads without a pause takes the machine from what is tried
				}
			}
		})
	}
	return r
}

func (r *readers) stop() int64 {
	r.end()
	r.running.Wait()
	return r.reads.Load()
}

// rotations is how many rotations the tests without an API server go through.
const rotations = 50

// TestFiftyRotations keeps one provider running through fifty rotations and says
// what they cost.
func TestFiftyRotations(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{Fields: map[string]any{
		"status.probeInterval": "100ms", "rotation.activationDelay": "1ms", "rotation.requireStableObservationCount": 1,
		"logging.level": "debug",
	}})
	size := func() int64 {
		info, err := os.Stat(p.Files.State)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for v := 2; v <= rotations+1; v++ {
		if _, err := tr.Rotate(t.Context(), tr.Key()); err != nil {
			t.Fatal(err)
		}
		eventuallyActive(t, p, v)
		if v == 2 || v%10 == 1 {
			count, mean := probeTimes(t, p)
			t.Logf("version %2d: state file %5d bytes, resident memory %d KiB, %d probes of %.1f ms", v, size(), residentKiB(t, p), count, mean)
		}
	}
	r := registryOf(t, p)
	if len(r.Snapshots) != rotations+1 {
		t.Fatalf("%d snapshots after %d rotations", len(r.Snapshots), rotations)
	}
	// One observation, one promotion: nothing else may write.
	if want := uint64(1 + 2*rotations); r.Generation != want {
		t.Errorf("generation %d, want %d", r.Generation, want)
	}
	if perSnapshot := size() / int64(rotations+1); perSnapshot > 600 {
		t.Errorf("%d bytes a snapshot", perSnapshot)
	}
}

// probeTimes reads the durations of the provider's metadata probes from its log,
// of the newest fifty at most.
func probeTimes(t *testing.T, p *stack.Provider) (count int, meanMS float64) {
	t.Helper()
	log, err := os.ReadFile(p.Files.Log)
	if err != nil {
		t.Fatal(err)
	}
	var took []float64
	for line := range bytes.Lines(log) {
		var record struct {
			Message    string  `json:"message"`
			Kind       string  `json:"probe_kind"`
			DurationMS float64 `json:"duration_ms"`
		}
		if json.Unmarshal(line, &record) == nil && record.Message == "status.probe" && record.Kind == "metadata" {
			took = append(took, record.DurationMS)
		}
	}
	took = took[max(0, len(took)-50):]
	for _, ms := range took {
		meanMS += ms / float64(len(took))
	}
	return len(took), meanMS
}

// residentKiB reads a process's resident memory.
func residentKiB(t *testing.T, p *stack.Provider) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(status), new(int), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() / 1024
}

// TestKilledThroughFiftyRotations kills the provider with SIGKILL at random
// moments while the key rotates under it. Every identity that any life of it had
// accepted must be in the next one's registry, and the active version must never
// go back.
func TestKilledThroughFiftyRotations(t *testing.T) {
	t.Parallel()
	tr := transit(t)
	p := stacktest.Provider(t, binary(t), tr, stack.ProviderConfig{Fields: map[string]any{
		"status.probeInterval": "20ms", "rotation.activationDelay": "1ms", "rotation.requireStableObservationCount": 1,
	}})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	accepted := map[string]int{}
	highest, kills := 0, 0
	check := func() {
		t.Helper()
		r := registryOf(t, p)
		now := map[string]bool{}
		for _, s := range r.Snapshots {
			hash := identity.Hash(s.KeyID)
			now[hash] = true
			accepted[hash] = s.Version
		}
		// What any life has said that it accepted or promoted counts, too.
		for hash, v := range told(t, p) {
			accepted[hash] = v
		}
		for hash, v := range accepted {
			if !now[hash] {
				t.Fatalf("the identity of version %d is forgotten", v)
			}
		}
		if v := r.active().Version; v < highest {
			t.Fatalf("the active version went back from %d to %d", highest, v)
		} else {
			highest = v
		}
	}
	for v := 2; v <= rotations+1; v++ {
		var rotated sync.WaitGroup
		rotated.Go(func() {
			if _, err := tr.Rotate(t.Context(), tr.Key()); err != nil {
				t.Error(err)
			}
		})
		// The moment is the experiment: anywhere in a probe, a save, a promotion.
		<-time.After(time.Duration(random.IntN(60)) * time.Millisecond)
		p.Kill()
		kills++
		rotated.Wait()
		check()
		if err := p.Start(t.Context()); err != nil {
			t.Fatalf("start after kill %d: %v", kills, err)
		}
		check()
	}
	eventuallyActive(t, p, rotations+1)
	check()
	if len(accepted) != rotations+1 {
		t.Errorf("%d identities after %d rotations", len(accepted), rotations)
	}
	t.Logf("%d kills, %d identities, generation %d", kills, len(accepted), registryOf(t, p).Generation)
}

// told returns the identities that a provider's log says it has taken in, by the
// hash of their key_id.
func told(t *testing.T, p *stack.Provider) map[string]int {
	t.Helper()
	log, err := os.ReadFile(p.Files.Log)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for line := range bytes.Lines(log) {
		var record struct {
			Message string `json:"message"`
			Hash    string `json:"key_id_hash"`
			Version int    `json:"transit_key_version"`
		}
		if json.Unmarshal(line, &record) == nil && (record.Message == "key.observed" || record.Message == "key.promoted") {
			found[record.Hash] = record.Version
		}
	}
	return found
}

// TestTheStateDirectoryFails puts the state on a small file system of its own,
// lets it become read-only and full, and repairs it: nothing is lost, nothing is
// published early, and reads and writes go on whenever they may.
func TestTheStateDirectoryFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	state := stacktest.Dir(t)
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Fatalf("this test mounts a tmpfs and needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	})
	n := c.join(map[string]any{"state.path": filepath.Join(state, "key-registry.json")})
	n.provider.Files.State = filepath.Join(state, "key-registry.json")
	n.writeSecret("before")
	kms := kmsClient(t, n.provider)
	sealed, err := kms.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("a seed")})
	if err != nil {
		t.Fatal(err)
	}
	// While a new identity cannot be saved, Encrypt stops and known data is read.
	stopsAndReads := func() {
		t.Helper()
		if _, err := kms.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("another")}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Encrypt: %v, want FailedPrecondition", err)
		}
		opened, err := kms.Decrypt(t.Context(), &kmsapi.DecryptRequest{Ciphertext: sealed.Ciphertext, KeyId: sealed.KeyId, Annotations: sealed.Annotations})
		if err != nil || string(opened.Plaintext) != "a seed" {
			t.Errorf("Decrypt of known data: %v", err)
		}
		n.mustReadSecret("before")
	}

	mount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount(state, state, "", syscall.MS_BIND|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func() {
		t.Helper()
		if _, err := c.transit.Rotate(t.Context(), c.transit.Key()); err != nil {
			t.Fatal(err)
		}
	}

	// The same directory, seen through a read-only mount of itself.
	mount(0)
	mount(syscall.MS_REMOUNT | syscall.MS_RDONLY)
	rotate()
	if r := eventuallyReason(t, n.provider, "state_save_failed"); !r.PersistenceDegraded {
		t.Error("persistence_degraded is not told")
	}
	stopsAndReads()
	// Nor does a restart take decryption away.
	if err := n.provider.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReason(t, n.provider, "state_save_failed")
	stopsAndReads()
	// Detached and not unmounted: the provider's lock is open in it.
	if err := syscall.Unmount(state, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	eventuallyActive(t, n.provider, 2)

	// Full: fill what is left, so that the next state does not fit.
	filler := filepath.Join(state, "filler")
	if err := fill(filler); err != nil {
		t.Fatal(err)
	}
	rotate()
	eventuallyReason(t, n.provider, "state_save_failed")
	stopsAndReads()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	eventuallyActive(t, n.provider, 3)

	// Failing between its two files: something is in the checkpoint's way.
	obstacle := n.provider.Files.State + ".checkpoint.tmp"
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	rotate()
	eventuallyReason(t, n.provider, "state_save_failed")
	stopsAndReads()
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	eventuallyActive(t, n.provider, 4)
	if err := n.api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.mustReadSecret("before")
	n.writeSecret("after")
	if got := c.raw("after").KeyID; got != registryOf(t, n.provider).active().KeyID {
		t.Errorf("after the repair etcd has key_id %s", got)
	}
}

// fill writes until the file system is full.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
