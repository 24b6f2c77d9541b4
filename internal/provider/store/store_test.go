package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
)

// TestMain lets a test start this binary again as another process.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(child(role, os.Getenv(pathVariable)))
	}
	os.Exit(m.Run())
}

var (
	scope = identity.Scope{
		ProviderName:      "bao-kms",
		ClusterID:         "cluster-a",
		OpenBaoInstanceID: "bao-a",
		TransitMountID:    "mount-a",
		KeyLineageID:      "lineage-a",
	}
	fingerprint = scope.Fingerprint("transit/kms", "cluster-key")
	rules       = registry.Rules{StableObservations: 3, RejectRollback: true}
)

// metadata describes a key with this many versions and no minimum.
func metadata(latest int) registry.Metadata {
	md := registry.Metadata{Latest: latest, CreatedAtUnix: map[int]int64{}}
	for v := 1; v <= latest; v++ {
		md.CreatedAtUnix[v] = 1_700_000_000 + int64(v)
	}
	return md
}

// genesis is a generation 1; another clock makes another history.
func genesis(clock int64) *registry.Registry {
	r, err := registry.Bootstrap(scope, fingerprint, metadata(1), clock)
	if err != nil {
		panic(err)
	}
	return r
}

// successor is the next generation of an ordinary life: an observation that
// takes in a new version, two more that make it stable, its promotion; every
// other time the key has jumped over a version.
func successor(r *registry.Registry) *registry.Registry {
	clock := r.Active().CreatedAtUnix + int64(r.Generation())
	next, change, err := r, registry.Change{}, error(nil)
	switch p := r.Pending(); {
	case p == nil:
		newest := len(r.Entries())
		next, change, err = r.Observe(metadata(newest+1+newest%2), rules, clock)
	case r.IsStable(rules):
		next, change, err = r.Promote(metadata(p.TransitVersion), rules, true, clock)
	default:
		next, change, err = r.Observe(metadata(p.TransitVersion), rules, clock)
	}
	if err != nil || !change.Any() {
		panic(fmt.Sprintf("generation %d has no successor: %v", r.Generation(), err))
	}
	return next
}

// lineage is the generations 1 to n of one history: lineage(...)[g] is
// generation g, and [0] is nil.
func lineage(n int, clock int64) []*registry.Registry {
	all := []*registry.Registry{nil, genesis(clock)}
	for len(all) <= n {
		all = append(all, successor(all[len(all)-1]))
	}
	return all
}

// Clocks of two histories that have nothing in common.
const (
	ownClock  = 1_750_000_000
	peerClock = 1_750_000_777
)

func checkpointDocument(r *registry.Registry) []byte { return checkpointOf(r).encode() }

// statePath is the path of a state file that does not exist yet, in a private
// directory.
func statePath(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "registry.json")
}

// put writes the two files; nil stands for no file.
func put(t testing.TB, path string, state, checkpoint []byte) {
	t.Helper()
	for name, content := range map[string][]byte{path: state, path + checkpointSuffix: checkpoint} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if content == nil {
			continue
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// putRegistry leaves the files as a confirmed save of r does.
func putRegistry(t testing.TB, path string, r *registry.Registry) {
	t.Helper()
	put(t, path, r.Encode(), checkpointDocument(r))
}

func mustOpen(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustLoad(t testing.TB, s *Store, want *registry.Registry) {
	t.Helper()
	got, err := s.Load(fingerprint)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	wantRegistry(t, got, want)
}

func wantRegistry(t testing.TB, got, want *registry.Registry) {
	t.Helper()
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		t.Fatalf("registry = %v, want %v", describe(got), describe(want))
	case !bytes.Equal(got.Encode(), want.Encode()):
		t.Fatalf("registry is generation %s, want %s", describe(got), describe(want))
	}
}

func describe(r *registry.Registry) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", r.Generation(), r.Hash())
}

// wantFiles checks that both files hold r's documents.
func wantFiles(t testing.TB, path string, r *registry.Registry) {
	t.Helper()
	for name, want := range map[string][]byte{path: r.Encode(), path + checkpointSuffix: checkpointDocument(r)} {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s holds %q, want %q", filepath.Base(name), got, want)
		}
	}
}

// wantError checks every field of an *Error.
func wantError(t testing.TB, err error, path, problem, fix string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error = %v (%T), want an *Error about %s: %s", err, err, path, problem)
	}
	if e.Path != path {
		t.Errorf("Path = %q, want %q", e.Path, path)
	}
	if e.Problem != problem {
		t.Errorf("Problem = %q, want %q", e.Problem, problem)
	}
	if e.Fix != fix {
		t.Errorf("Fix = %q, want %q", e.Fix, fix)
	}
}

// entry is what a name in a directory stands for, closely enough that any touch
// shows.
type entry struct {
	inode      uint64
	mode, uid  uint32
	size       int64
	modified   unix.Timespec
	changed    unix.Timespec
	regular    string // content
	linkTarget string
}

// listing describes everything in path's directory but the lock file.
func listing(t testing.TB, path string) map[string]entry {
	t.Helper()
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]entry{}
	for _, n := range names {
		full := filepath.Join(filepath.Dir(path), n.Name())
		if full == path+lockSuffix {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(full, &st); err != nil {
			t.Fatal(err)
		}
		e := entry{inode: st.Ino, mode: st.Mode, uid: st.Uid, size: st.Size, modified: st.Mtim, changed: st.Ctim}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(full)
			if err != nil {
				t.Fatal(err)
			}
			e.regular = string(b)
		case unix.S_IFLNK:
			if e.linkTarget, err = os.Readlink(full); err != nil {
				t.Fatal(err)
			}
		}
		out[n.Name()] = e
	}
	return out
}

// wantUntouched checks that the directory is exactly as it was before.
func wantUntouched(t testing.TB, path string, before map[string]entry) {
	t.Helper()
	after := listing(t, path)
	for name, e := range before {
		if after[name] != e {
			t.Errorf("%s was touched: %+v, before %+v", name, after[name], e)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was created", name)
		}
	}
}

// within fails when f does not return soon: what it does must never block.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s blocks", what)
	}
}
