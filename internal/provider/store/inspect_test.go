package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/registry"
)

// inspectDisk is Inspect on a modelled disk, which it must leave as it is.
func inspectDisk(t testing.TB, d *disk) (Inspection, error) {
	t.Helper()
	before := d.key()
	found, err := boot(d).store().inspect(&injected{d, &plan{}})
	if d.key() != before {
		t.Fatalf("Inspect changed the files to\n%s", d)
	}
	return found, err
}

// wantAsLoad checks an inspection against what Load then made of the same files.
func wantAsLoad(t testing.TB, found Inspection, err error, loaded *registry.Registry, loadErr error, completed bool) {
	t.Helper()
	if (found.StateErr != nil) != (err != nil && found.Registry == nil) {
		t.Errorf("StateErr is %v beside the error %v and generation %s", found.StateErr, err, describe(found.Registry))
	}
	if e, ok := errors.AsType[*Error](loadErr); ok && strings.HasPrefix(e.Problem, "belongs to another configuration") {
		// What Load says only after it took both files.
		if found.Registry == nil || found.Registry.Fingerprint() == "" || found.StateErr != nil || found.CheckpointErr != nil {
			t.Errorf("Inspect = %+v, %v for another configuration's files", found, err)
		}
		return
	}
	if fmt.Sprint(err) != fmt.Sprint(loadErr) {
		t.Errorf("Inspect says %v, Load %v", err, loadErr)
	}
	if err != nil {
		own, isOwn := errors.AsType[*Error](err)
		if !isOwn || found.Interrupted {
			t.Errorf("Inspect = interrupted %v, %T", found.Interrupted, err)
			return
		}
		about := strings.HasSuffix(own.Path, checkpointSuffix)
		if about != (found.CheckpointErr != nil) || about && fmt.Sprint(found.CheckpointErr) != fmt.Sprint(err) {
			t.Errorf("CheckpointErr is %v beside %v", found.CheckpointErr, err)
		}
		if !about && found.StateErr != nil && fmt.Sprint(found.StateErr) != fmt.Sprint(err) {
			t.Errorf("StateErr is %v beside %v", found.StateErr, err)
		}
		return
	}
	wantRegistry(t, found.Registry, loaded)
	if found.Interrupted != completed || found.CheckpointErr != nil {
		t.Errorf("Interrupted is %v, want %v; CheckpointErr is %v", found.Interrupted, completed, found.CheckpointErr)
	}
}

// TestInspectTellsEachFile: what is wrong with one file is told whatever is wrong
// with the other, because an operator has to repair both.
func TestInspectTellsEachFile(t *testing.T) {
	own := lineage(5, ownClock)
	good, goodCheckpoint, bad := own[5].Encode(), checkpointDocument(own[5]), []byte("{")
	for name, tt := range map[string]struct {
		state, checkpoint            []byte
		registry                     *registry.Registry
		err, stateErr, checkpointErr string // fragments; empty for none
		interrupted                  bool
	}{
		"both good":                  {state: good, checkpoint: goodCheckpoint, registry: own[5]},
		"fresh":                      {},
		"under way":                  {state: good, checkpoint: checkpointDocument(own[4]), registry: own[5], interrupted: true},
		"first save under way":       {state: own[1].Encode(), registry: own[1], interrupted: true},
		"disagreement":               {state: good, checkpoint: checkpointDocument(own[3]), registry: own[5], err: "the checkpoint is an older copy"},
		"no checkpoint":              {state: good, registry: own[5], err: "the checkpoint is missing"},
		"damaged checkpoint":         {state: good, checkpoint: bad, registry: own[5], err: "the checkpoint is not a complete", checkpointErr: "the checkpoint is not a complete"},
		"damaged state":              {state: bad, checkpoint: goodCheckpoint, err: "the state file is not a complete", stateErr: "the state file is not a complete"},
		"damaged both":               {state: bad, checkpoint: bad, err: "the checkpoint is not a complete", stateErr: "the state file is not a complete", checkpointErr: "the checkpoint is not a complete"},
		"no state":                   {checkpoint: goodCheckpoint, err: "names generation 5", stateErr: "names generation 5"},
		"no state, bad checkpoint":   {checkpoint: bad, err: "the checkpoint is not a complete", stateErr: "the state file is missing", checkpointErr: "the checkpoint is not a complete"},
		"empty state, no checkpoint": {state: []byte{}, err: "it is empty or was cut off", stateErr: "it is empty or was cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			path := statePath(t)
			put(t, path, tt.state, tt.checkpoint)
			found, err := Inspect(path)
			wantRegistry(t, found.Registry, tt.registry)
			if found.Interrupted != tt.interrupted {
				t.Errorf("Interrupted is %v", found.Interrupted)
			}
			for _, e := range []struct {
				what string
				got  error
				want string
			}{{"error", err, tt.err}, {"StateErr", found.StateErr, tt.stateErr}, {"CheckpointErr", found.CheckpointErr, tt.checkpointErr}} {
				if (e.got == nil) != (e.want == "") || e.got != nil && !strings.Contains(e.got.Error(), e.want) {
					t.Errorf("%s is %v, want %q", e.what, e.got, e.want)
				}
			}
		})
	}
}

// everything is the directory with the lock file, and the directory itself.
func everything(t *testing.T, path string) map[string]entry {
	t.Helper()
	out := listing(t, path)
	for _, name := range []string{path + lockSuffix, filepath.Dir(path)} {
		var st unix.Stat_t
		switch err := unix.Lstat(name, &st); {
		case err == nil:
			out[name] = entry{inode: st.Ino, mode: st.Mode, uid: st.Uid, size: st.Size, modified: st.Mtim, changed: st.Ctim}
		case !errors.Is(err, unix.ENOENT):
			t.Fatal(err)
		}
	}
	return out
}

// TestInspectChangesNothing: no lock file, no completed save, and what an
// interrupted one left under a temporary name stays.
func TestInspectChangesNothing(t *testing.T) {
	own := lineage(2, ownClock)
	for name, prepare := range map[string]func(path string){
		"fresh":            func(string) {},
		"no lock file":     func(path string) { putRegistry(t, path, own[2]) },
		"interrupted save": func(path string) { put(t, path, own[2].Encode(), checkpointDocument(own[1])) },
		"temporary files": func(path string) {
			putRegistry(t, path, own[2])
			for _, suffix := range []string{"", checkpointSuffix} {
				if err := os.WriteFile(path+suffix+temporarySuffix, []byte("{"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		},
		"damaged":         func(path string) { put(t, path, []byte("{"), []byte("{")) },
		"locked by a run": func(path string) { putRegistry(t, path, own[2]); mustOpen(t, path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := statePath(t)
			prepare(path)
			before := everything(t, path)
			_, _ = Inspect(path)
			after := everything(t, path)
			for file, e := range before {
				if after[file] != e {
					t.Errorf("%s was touched: %+v, before %+v", file, after[file], e)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%d files, %d before", len(after), len(before))
			}
		})
	}
}

// TestInspectTellsNothingOfAGoodLock: one that is not there, one that a run left,
// one that is held.
func TestInspectTellsNothingOfAGoodLock(t *testing.T) {
	own := lineage(2, ownClock)
	path := statePath(t)
	putRegistry(t, path, own[2])
	look := func(what string) {
		t.Helper()
		if found, err := Inspect(path); err != nil || found.LockErr != nil {
			t.Errorf("%s: %v, %v", what, err, found.LockErr)
		}
	}
	look("no lock file")
	s := mustOpen(t, path)
	look("held")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look("left")
	if err := os.Chmod(path+lockSuffix, 0o640); err != nil {
		t.Fatal(err)
	}
	found, err := Inspect(path)
	if e, ok := errors.AsType[*Error](found.LockErr); err != nil || !ok || *e != (Error{path + lockSuffix, "the lock file has mode 0640", "run chmod 0600 on it", nil}) {
		t.Errorf("a lock that others can take: %v, %v", err, found.LockErr)
	}
	wantRegistry(t, found.Registry, own[2])
}

// TestInspectReadOnlyFileSystem: where nothing can be written, and no lock taken.
func TestInspectReadOnlyFileSystem(t *testing.T) {
	dir, ok := smallFileSystem(t)
	if !ok {
		t.Log("mounting is not permitted here")
		return
	}
	own := lineage(2, ownClock)
	path := filepath.Join(dir, modelName)
	put(t, path, own[2].Encode(), checkpointDocument(own[1]))
	readOnly(t, dir, func() {
		found, err := Inspect(path)
		if err != nil || !found.Interrupted {
			t.Errorf("Inspect on a read-only file system: %+v, %v", found, err)
		}
		wantRegistry(t, found.Registry, own[2])
	})
}

func TestInspectUnusablePath(t *testing.T) {
	for path, problem := range map[string]string{
		"": "no path is given", "registry.json": "the path is relative", "/": "is a directory",
		filepath.Join(t.TempDir(), "nowhere", "registry.json"): "the state directory does not exist",
	} {
		found, err := Inspect(path)
		if err == nil || !strings.Contains(err.Error(), problem) || found.StateErr != err || found.Registry != nil {
			t.Errorf("Inspect(%q) = %+v, %v, want %q", path, found, err, problem)
		}
	}
}
