package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/test/stack"
)

// pair is a state file and its checkpoint.
type pair struct{ state, checkpoint string }

func pairOf(t *testing.T, w *world) pair {
	t.Helper()
	state, err := os.ReadFile(w.files.State)
	must(t, err)
	checkpoint, err := os.ReadFile(w.files.State + ".checkpoint")
	must(t, err)
	return pair{string(state), string(checkpoint)}
}

// put gives a node these files; an empty one is left out.
func (p pair) put(t *testing.T, w *world) {
	t.Helper()
	for path, text := range map[string]string{w.files.State: p.state, w.files.State + ".checkpoint": p.checkpoint} {
		if text != "" {
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
}

// stateCase is one thing that is wrong with a node's files.
type stateCase struct {
	name string
	pair pair
	// spoil changes the state file's, or the checkpoint's, after they are there.
	spoil func(t *testing.T, w *world)
	// id is the check that fails, reason and words what it says.
	id, reason string
	words      []string
}

func (c stateCase) run(t *testing.T, transit *stack.Transit) {
	t.Run(c.name, func(t *testing.T) {
		w := newNode(t, transit, worldOptions{})
		c.pair.put(t, w)
		if c.spoil != nil {
			c.spoil(t, w)
		}
		r := examine(t, w)
		expect(t, r, c.id, command.Fail, c.reason, c.words...)
		if c.pair == (pair{}) {
			onlyFails(t, r, c.id)
		} else {
			stopped(t, r, c.id)
		}
	})
}

func ofState(f func(*testing.T, string)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { t.Helper(); f(t, w.files.State) }
}

func ofCheckpoint(f func(*testing.T, string)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { t.Helper(); f(t, w.files.State+".checkpoint") }
}

func ofDirectory(f func(*testing.T, string)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { t.Helper(); f(t, filepath.Dir(w.files.State)) }
}

func cutOff(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	must(t, err)
	must(t, os.Truncate(file, info.Size()/2))
}

// TestStateFiles breaks one of a node's files at a time.
func TestStateFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	r := examine(t, w)
	expect(t, r, "registry.state", command.Pass, "", "the provider's first start makes it")
	expect(t, r, "registry.checkpoint", command.Skip, "", "no state yet")
	passes(t, r, "registry.metadata", "keyid.deterministic", "socket.path")
	onlyFails(t, r)

	w.serve(t)
	w.stop(t)
	first := pairOf(t, w)
	r = examine(t, w)
	expect(t, r, "registry.state", command.Pass, "", "generation 1, Transit version 1 is active")
	passes(t, r, "registry.checkpoint", "registry.metadata", "keyid.deterministic")
	stopped(t, r)

	w.rotate(t, 2)
	r = examine(t, w)
	expect(t, r, "registry.metadata", command.Pass, "", "latest version is 2; this node knows up to 1")
	stopped(t, r)
	w.promote(t, 2)
	last := pairOf(t, w)
	stopped(t, examine(t, w))

	const state, checkpoint = "registry.state", "registry.checkpoint"
	for _, c := range []stateCase{
		{"no state, and the key was rotated", pair{}, nil, state, "state_unavailable", []string{"it is at version 2", "copy both from a peer", "first the checkpoint, then the state file", "do not start the provider before", "only if no node of this cluster was ever started, make another key, and run init again with its name and a new --key-lineage-id"}},
		{"no directory, and the key was rotated", pair{}, ofDirectory(remove), state, "state_unavailable", []string{"it is at version 2"}},
		{"a checkpoint alone", pair{checkpoint: last.checkpoint}, nil, state, "state_unavailable", []string{"the state file is missing", "generation"}},
		{"state cut off", last, ofState(cutOff), state, "state_unavailable", []string{"cut off", "restore"}},
		{"state edited", last, ofState(edit(`"retired"`, `"removed"`)), state, "state_unavailable", []string{"the state file", "restore"}},
		{"state readable by the group", last, ofState(mode(0o640)), state, "state_unavailable", []string{"the state file has mode 0640", "chmod 0600", "doctor then checks"}},
		{"state of another user", last, ofState(owner(stranger)), state, "state_unavailable", []string{"12345", "chown it to user 0 (root), as which the provider runs"}},
		{"state is a link", last, ofState(link), state, "state_unavailable", []string{"the state file is a symbolic link"}},
		{"directory of another user", last, ofDirectory(owner(stranger)), state, "state_unavailable", []string{"the state directory is owned by user 12345", "run the command as the user that owns the state"}},
		{"directory open to the group", last, ofDirectory(mode(0o770)), state, "state_unavailable", []string{"mode 0770", "chmod 0750"}},
		{"another configuration", last, func(t *testing.T, w *world) {
			w.configure(t, map[string]any{"transit.keyIdScope.clusterId": "another"})
		},
			state, "configuration_differs", []string{"another configuration", "restore the configuration that this state was made with; compare"}},

		{"no checkpoint", pair{state: last.state}, nil, checkpoint, "checkpoint_conflict", []string{"the checkpoint is missing", "restore"}},
		{"checkpoint cut off", last, ofCheckpoint(cutOff), checkpoint, "checkpoint_conflict", []string{"cut off", "restore"}},
		{"checkpoint readable by the group", last, ofCheckpoint(mode(0o640)), checkpoint, "checkpoint_conflict", []string{"the checkpoint has mode 0640"}},
		{"an older state", pair{first.state, last.checkpoint}, nil, checkpoint, "checkpoint_conflict", []string{"the state file is an older copy", "newest generation"}},
		{"an older checkpoint", pair{last.state, first.checkpoint}, nil, checkpoint, "checkpoint_conflict", []string{"the checkpoint is an older copy"}},
		{"two histories", last, ofCheckpoint(edit("sha256:", "sha256:0")), checkpoint, "checkpoint_conflict", []string{"the checkpoint"}},
	} {
		c.run(t, w.transit)
	}
}

// TestStateFilesOfAnInterruptedSave: the next start completes it, so nothing is wrong.
func TestStateFilesOfAnInterruptedSave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	w.stop(t)
	remove(t, w.files.State+".checkpoint")
	r := examine(t, w)
	expect(t, r, "registry.checkpoint", command.Pass, "", "there is none yet: the provider's next start writes it")
	stopped(t, r)
	w.serve(t)
	if r := examine(t, w); checkOf(t, r, "registry.checkpoint").Message != "" {
		t.Errorf("after the start: %s", told(checkOf(t, r, "registry.checkpoint")))
	}
}

// TestDirectoriesThatTheServiceMakes: before the first start they need not be there.
func TestDirectoriesThatTheServiceMakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	ofDirectory(remove)(t, w)
	remove(t, filepath.Dir(w.files.Socket))
	r := examine(t, w)
	expect(t, r, "registry.state", command.Warn, "state_directory_missing", "no directory for it", "mode 0700", "StateDirectory")
	expect(t, r, "socket.path", command.Warn, "socket_directory_missing", "server.socketPath", "RuntimeDirectory")
	passes(t, r, "registry.metadata", "keyid.deterministic", "transit.roundtrip")
	onlyFails(t, r, "registry.state", "socket.path")
}

// TestNoStateAndNoKey: whether a node may start without state depends on the key.
func TestNoStateAndNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	must(t, w.transit.DeleteKey(t.Context(), key))
	r := examine(t, w)
	skippedBecause(t, r, "registry.state", "transit.key")
	onlyFails(t, r, "transit.key")
}

// TestRegistryAgainstOpenBao changes the key behind a node's back.
func TestRegistryAgainstOpenBao(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	w.stop(t)
	configure := func(fields map[string]any) { t.Helper(); must(t, w.transit.ConfigureKey(t.Context(), key, fields)) }

	w.rotate(t, 2)
	configure(map[string]any{"min_encryption_version": 2})
	r := examine(t, w)
	expect(t, r, "registry.metadata", command.Fail, "encryption_blocked", "min_encryption_version", "1", "lower it in OpenBao")
	stopped(t, r, "registry.metadata", "transit.roundtrip")
	configure(map[string]any{"min_encryption_version": 0})

	configure(map[string]any{"min_decryption_version": 2})
	r = examine(t, w)
	expect(t, r, "registry.metadata", command.Fail, "versions_blocked", "Transit version 1", "lower the minimum in OpenBao")
	if told := told(checkOf(t, r, "registry.metadata")); strings.Contains(told, "retire-versions") {
		t.Errorf("the active version cannot be retired: %s", told)
	}
	configure(map[string]any{"min_decryption_version": 1})

	w.promote(t, 2)
	configure(map[string]any{"min_decryption_version": 2})
	r = examine(t, w)
	expect(t, r, "registry.metadata", command.Fail, "versions_blocked", "Transit version 1", "lower the minimum in OpenBao", "retire-versions --before-version 2")
	passes(t, r, "transit.roundtrip", "keyid.deterministic")
	stopped(t, r, "registry.metadata")
	configure(map[string]any{"min_decryption_version": 1})
	stopped(t, examine(t, w))

	// OpenBao out of reach: local state is judged, and nothing is said of what was not compared.
	must(t, w.transit.Stop())
	r = examine(t, w)
	passes(t, r, "registry.state", "registry.checkpoint")
	expect(t, r, "keyid.deterministic", command.Pass, "", "own records only")
	skippedBecause(t, r, "registry.metadata", "openbao.reachable")
}

// TestLockFile: what the next start refuses is told before it, and the real one does refuse it.
func TestLockFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	onlyFails(t, examine(t, w)) // held
	mode(0o660)(t, w.files.State+".lock")
	r := examine(t, w)
	expect(t, r, "registry.state", command.Fail, "lock_file_unusable", "the lock file has mode 0660: the provider's next start refuses it", "run chmod 0600 on it")
	onlyFails(t, r, "registry.state")
	w.stop(t)
	bins, err := stack.Find()
	if bins.Root == "" {
		t.Fatal(err)
	}
	if p, err := stack.StartProvider(t.Context(), stack.ProviderOptions{Binary: filepath.Join(bins.Root, "bin", "bao-kms-provider"), Files: w.files}); err == nil {
		t.Error("a provider starts with a lock file that others can hold")
		_ = p.Stop()
	}
	mode(0o600)(t, w.files.State+".lock")
	stopped(t, examine(t, w))
}

// TestRotatedWhileItIsLookedAt: the first answer about the key is held back until the key has been rotated and a provider has promoted it, so
// that the files are newer than the answer. That is no rollback, for none of the commands that hold the two against each other.
func TestRotatedWhileItIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{fields: map[string]any{"openbao.timeout": "2s"}})
	w.serve(t)
	w.stop(t)
	first := pairOf(t, w)
	older := w.keyAnswer(t)
	w.rotate(t, 2)
	w.promote(t, 2)
	second := pairOf(t, w)
	for _, look := range append(slices.Clone(looks), struct {
		name string
		run  func(context.Context, diagnose.Options) *command.Report
		may  []string
	}{"doctor", diagnose.Doctor, nil}) {
		t.Run(look.name, func(t *testing.T) {
			first.put(t, w)
			w.proxy.Handle("/keys/"+key, 1, func(rw http.ResponseWriter, _ *http.Request) {
				second.put(t, w)
				rw.Header().Set("Content-Type", "application/json")
				_, _ = rw.Write(older)
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r := look.run(ctx, w.options())
			passes(t, r, "registry.metadata", "registry.state", "transit.key")
			if r.Registry != nil {
				rotationReports{r, r, r}.snapshots(t, true, "1 retired agrees", "2 active agrees")
			}
		})
	}
}

// keyAnswer is OpenBao's answer to a read of the key.
func (w *world) keyAnswer(t *testing.T) []byte {
	t.Helper()
	var answer json.RawMessage
	must(t, w.transit.Root().Do(t.Context(), http.MethodGet, mount+"/keys/"+key, nil, &answer))
	return answer
}

// TestTheKeyWasReplaced: another key of the same name, first with fewer versions and then with as many.
func TestTheKeyWasReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	w.stop(t)
	w.rotate(t, 2)
	w.promote(t, 2)
	replaced := time.Now()
	await(t, "another second", func() error {
		if time.Since(replaced) < 1100*time.Millisecond {
			return os.ErrDeadlineExceeded
		}
		return nil
	})
	must(t, w.transit.DeleteKey(t.Context(), key))
	must(t, w.transit.CreateKey(t.Context(), key, map[string]any{"type": "aes256-gcm96"}))
	r := examine(t, w)
	expect(t, r, "registry.metadata", command.Fail, "version_rollback", "OpenBao's latest version is 1", "restore the key")
	w.rotate(t, 2)
	r = examine(t, w)
	expect(t, r, "registry.metadata", command.Fail, "identity_drift", "Transit versions 1, 2", "restore the original key")
	expect(t, r, "keyid.deterministic", command.Fail, "key_id_differs", "Transit version 1 and 2", "restore the original key")
	stopped(t, r, "registry.metadata", "keyid.deterministic")
}
