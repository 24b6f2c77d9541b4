package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// written is one node's pair of state files, and its configuration's changes.
type written struct {
	state, checkpoint string
	fields            map[string]any
}

// put writes the files into another node's place.
func (w written) put(t *testing.T, f stack.ProviderFiles) {
	t.Helper()
	if w.state != "" {
		write(t, f.State, w.state, 0o600)
	}
	if w.checkpoint != "" {
		write(t, f.State+".checkpoint", w.checkpoint, 0o600)
	}
}

func filesOf(t *testing.T, p *stack.Provider, fields map[string]any) written {
	t.Helper()
	return written{read(t, p.Files.State), read(t, p.Files.State+".checkpoint"), fields}
}

func badStateFiles(t *testing.T, b *badBench) []badCase {
	good := b.firstLife(t, nil)
	state := func(name string, spoil func(t *testing.T, f stack.ProviderFiles), words ...string) badCase {
		return badCase{
			name: name, code: exitRuntime, creates: lockFile, words: append([]string{"key registry"}, words...),
			spoil: func(t *testing.T, f stack.ProviderFiles) { t.Helper(); good.put(t, f); spoil(t, f) },
		}
	}
	dir := func(f stack.ProviderFiles) string { return filepath.Dir(f.State) }
	cases := []badCase{
		state("no directory", func(t *testing.T, f stack.ProviderFiles) { move(t, dir(f), beside(f, "elsewhere")) }, "directory does not exist", "create it"),
		state("directory is a link", func(t *testing.T, f stack.ProviderFiles) { relink(t, dir(f)) }, "link"),
		state("directory open to the group", func(t *testing.T, f stack.ProviderFiles) { chmod(t, dir(f), 0o770) }, "mode 0770", "chmod"),
		state("directory open to all", func(t *testing.T, f stack.ProviderFiles) { chmod(t, dir(f), 0o777) }, "mode 0777", "chmod"),
		state("another process has the lock", lockState, "holds the lock", fmt.Sprintf("process %d", os.Getpid())),
		state("of another fingerprint", func(t *testing.T, f stack.ProviderFiles) {
			write(t, f.Config, strings.Replace(read(t, f.Config), stack.ClusterID, "another-cluster", 1), 0o600)
		}, "another configuration", "fingerprint", "cfg1."),
		state("checkpoint without state", func(t *testing.T, f stack.ProviderFiles) { must(t, os.Remove(f.State)) }, "state file is missing", "generation 1", "backup"),
		state("edited", func(t *testing.T, f stack.ProviderFiles) {
			write(t, f.State, strings.Replace(good.state, `"active"`, `"retired"`, 1), 0o600)
		}, "invariant", "restore"),
		state("edited, a time", func(t *testing.T, f stack.ProviderFiles) {
			write(t, f.State, strings.Replace(good.state, `"promotedAtUnix": 1`, `"promotedAtUnix": 2`, 1), 0o600)
		}, "hash", "restore"),
		state("with something after it", func(t *testing.T, f stack.ProviderFiles) { write(t, f.State, good.state+"{}", 0o600) }, "canonical", "restore"),
		state("with a field of tomorrow", func(t *testing.T, f stack.ProviderFiles) {
			write(t, f.State, strings.Replace(good.state, "{", `{"later": true,`, 1), 0o600)
		}, "does not know", "restore"),
		state("of 2 MiB", func(t *testing.T, f stack.ProviderFiles) {
			write(t, f.State, good.state+strings.Repeat(" ", 2<<20), 0o600)
		}, "larger than"),
	}
	for _, n := range []int{0, 1, len(good.state) / 3, len(good.state) - 2} {
		cases = append(cases, state(fmt.Sprintf("state cut off at byte %d", n), func(t *testing.T, f stack.ProviderFiles) {
			write(t, f.State, good.state[:n], 0o600)
		}, "key-registry.json:", "cut off", "restore the state file and the checkpoint"))
	}
	cases = append(cases, state("state without its last byte", func(t *testing.T, f stack.ProviderFiles) {
		write(t, f.State, good.state[:len(good.state)-1], 0o600)
	}, "key-registry.json:", "canonical", "restore"))
	for _, n := range []int{0, 1, len(good.checkpoint) / 2, len(good.checkpoint) - 2} {
		cases = append(cases, state(fmt.Sprintf("checkpoint cut off at byte %d", n), func(t *testing.T, f stack.ProviderFiles) {
			write(t, f.State+".checkpoint", good.checkpoint[:n], 0o600)
		}, "key-registry.json.checkpoint", "cut off", "restore"))
	}
	for _, suffix := range []string{"", ".checkpoint", ".lock"} {
		cases = append(cases, badStateFile(good, suffix)...)
	}
	return cases
}

// badStateFile are the unsafe kinds, modes and owners of one of the three files.
func badStateFile(good written, suffix string) []badCase {
	file := func(name string, spoil func(t *testing.T, path string), words ...string) badCase {
		return badCase{
			name: "key-registry.json" + suffix + " " + name, code: exitRuntime, creates: lockFile,
			words: append([]string{"key registry", "key-registry.json" + suffix + ":"}, words...),
			spoil: func(t *testing.T, f stack.ProviderFiles) {
				t.Helper()
				good.put(t, f)
				if suffix == ".lock" {
					write(t, f.State+suffix, "", 0o600)
				}
				spoil(t, f.State+suffix)
			},
		}
	}
	cases := []badCase{
		file("of mode 0640", func(t *testing.T, path string) { chmod(t, path, 0o640) }, "mode 0640", "chmod"),
		file("of mode 0602", func(t *testing.T, path string) { chmod(t, path, 0o602) }, "mode 0602", "chmod"),
		file("is a link", relink),
		file("is a directory", func(t *testing.T, path string) { must(t, os.Remove(path)); mkdir(t, path, 0o700) }, "regular file"),
		file("is a named pipe", func(t *testing.T, path string) { must(t, os.Remove(path)); mkfifo(t, path) }, "regular file"),
	}
	if os.Geteuid() == 0 {
		words := "owned by user"
		if suffix == ".lock" {
			words = "another owner"
		}
		cases = append(cases, file("of another owner", chown, words))
	}
	return cases
}

// lockState holds the lock as a running provider does.
func lockState(t *testing.T, f stack.ProviderFiles) {
	t.Helper()
	path := f.State + ".lock"
	write(t, path, fmt.Sprintf("%d\n", os.Getpid()), 0o600)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	must(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	t.Cleanup(func() { _ = file.Close() })
}

// firstLife lets a provider make its state and stops it.
func (b *badBench) firstLife(t *testing.T, fields map[string]any) written {
	t.Helper()
	p := stacktest.Provider(t, b.binary, b.transit, stack.ProviderConfig{Fields: fields})
	must(t, p.Stop())
	return filesOf(t, p, fields)
}

// badHistories are files of different moments, and a key that has moved on.
func badHistories(t *testing.T, b *badBench) []badCase {
	t.Helper()
	fields := map[string]any{"transit.keyName": historyKey, "status.probeInterval": "100ms", "rotation.activationDelay": "100ms"}
	p := stacktest.Provider(t, b.binary, b.transit, stack.ProviderConfig{Fields: fields})
	first := filesOf(t, p, fields)
	twin := b.twin(t, first, fields)
	_, err := b.transit.Rotate(t.Context(), historyKey)
	must(t, err)
	eventuallyActive(t, p, 2)
	must(t, p.Stop())
	last := filesOf(t, p, fields)

	history := func(name string, w written, words ...string) badCase {
		return badCase{name: name, fields: fields, spoil: w.put, code: exitRuntime, creates: lockFile, words: words}
	}
	return []badCase{
		history("a key at version 2 and no state", written{}, "startup: state_unavailable", "version 2", "no key registry", "restore", "copy both from a peer"),
		history("state behind its checkpoint", written{state: first.state, checkpoint: last.checkpoint}, "at generation 1", "older copy", "restore the state file of the newest"),
		history("state ahead of its checkpoint", written{state: last.state, checkpoint: first.checkpoint}, "checkpoint is at 1", "older copy", "restore the checkpoint"),
		history("state without a checkpoint", written{state: last.state}, "checkpoint is missing", "restore the checkpoint"),
		history("state and checkpoint of two nodes", written{state: first.state, checkpoint: twin.checkpoint}, "two histories", "one backup"),
	}
}

// twin is the first generation of another node with the same key: the same but for its time, so it must be of another second.
func (b *badBench) twin(t *testing.T, first written, fields map[string]any) (twin written) {
	t.Helper()
	eventually(t, "another node's first state differs", func() error {
		if twin = b.firstLife(t, fields); twin.state == first.state {
			return fmt.Errorf("it was made within the same second")
		}
		return nil
	})
	return twin
}
