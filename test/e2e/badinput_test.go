package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// The lane of bad input: what `serve`, and `config` where it judges the same, do with every unsafe file, wrong field, unusable
// credential and wrong OpenBao. Each gets one exit code and one clear message that names what is wrong and the next step; nothing is
// created and nothing is lost.

// Exit codes (design: config-and-cli).
const (
	exitConfiguration = 3
	exitRuntime       = 5
)

// badGrace is bootstrap.graceTimeout of the cases: what may heal by itself is waited for that long. The first try must end before, also
// on a busy machine, so that the message tells what came of it.
const badGrace = "2500ms"

// badCase is one bad input.
type badCase struct {
	name string
	// fields and claims are changes to a good configuration and a good JWT.
	fields, claims map[string]any
	// spoil changes files after they have been written. It may start what must be there during the run.
	spoil func(t *testing.T, f stack.ProviderFiles)
	// args come after the configuration; they may name another file.
	args []string
	code int
	// words must all be in the message.
	words []string
	// problems is how many lines a configuration's problems take; 0 is a message of one line.
	problems int
	// alsoConfig says that the config command judges the same way.
	alsoConfig bool
	// creates are the files that this input does not keep from being made: those of steps before the one that fails.
	creates []string
}

// Files that are made before OpenBao is asked, and before the KMS socket is bound (design: kms-service, startup).
var (
	lockFile   = []string{"state/key-registry.json.lock"}
	stateFiles = []string{"state/key-registry.json", "state/key-registry.json.checkpoint", "state/key-registry.json.lock"}
)

// badBench is what the cases share.
type badBench struct {
	binary  string
	transit *stack.Transit
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	b := newBadBench(t)
	for _, group := range []struct {
		name  string
		cases []badCase
	}{
		{"configuration", badConfigurations()},
		{"configuration file", badConfigurationFiles()},
		{"CA file", badCAFiles(b)},
		{"JWT file", badJWTFiles()},
		{"JWT", badJWTs()},
		{"state files", badStateFiles(t, b)},
		{"history", badHistories(t, b)},
		{"socket", badSockets(t)},
		{"OpenBao", badServers(t, b)},
		{"key", badKeys()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					b.run(t, c)
				})
			}
		})
	}
}

// run plays one case.
func (b *badBench) run(t *testing.T, c badCase) {
	fields := map[string]any{"bootstrap.graceTimeout": badGrace, "bootstrap.retryInterval": "500ms"}
	maps.Copy(fields, c.fields)
	f, err := stack.WriteProviderConfig(stacktest.Dir(t), b.transit, stack.ProviderConfig{Fields: fields, Claims: c.claims})
	if err != nil {
		t.Fatal(err)
	}
	if c.spoil != nil {
		c.spoil(t, f)
	}
	before := treeOf(t, f.Dir)
	if c.alsoConfig {
		b.refuses(t, c, f, "config")
		compareTrees(t, before, treeOf(t, f.Dir), nil)
	}
	b.refuses(t, c, f, "serve")
	compareTrees(t, before, treeOf(t, f.Dir), c.creates)
}

// refuses runs a command and asserts its exit code and its message.
func (b *badBench) refuses(t *testing.T, c badCase, f stack.ProviderFiles, command string) {
	t.Helper()
	code, stdout, stderr := b.execute(t, append([]string{command, "--config", f.Config}, c.args...)...)
	message := messageOf(stderr)
	if code != c.code {
		t.Errorf("%s: exit code %d, want %d; it said:\n%s", command, code, c.code, stderr)
	}
	if stdout != "" {
		t.Errorf("%s: %d bytes on standard output, want none", command, len(stdout))
	}
	if lines := strings.Count(message, "\n"); lines != 1+c.problems || !strings.HasPrefix(message, "bao-kms-provider: ") {
		t.Errorf("%s: the message has %d lines, want %d that begin with the program's name:\n%s", command, lines, 1+c.problems, message)
	}
	for _, word := range c.words {
		if !strings.Contains(message, word) {
			t.Errorf("%s: the message does not say %q:\n%s", command, word, message)
		}
	}
	b.holdsNoSecret(t, f, stderr)
}

// holdsNoSecret looks for what may never be printed (design: overview, invariant 10).
func (b *badBench) holdsNoSecret(t *testing.T, f stack.ProviderFiles, text string) {
	t.Helper()
	secrets := map[string]string{
		"key name": stack.DefaultKey, "mount path": stack.DefaultMount + "/", "login path": stack.JWTMount + "/", "private key": "PRIVATE KEY",
	}
	// It may be anything by now; only a regular file can be read without waiting for a writer.
	if info, err := os.Stat(f.JWT); err == nil && info.Mode().IsRegular() {
		if jwt := strings.TrimSpace(read(t, f.JWT)); len(jwt) > 20 {
			secrets["JWT"] = jwt
		}
	}
	for what, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("the output holds the %s", what)
		}
	}
}

// execute runs the provider until it ends by itself.
func (b *badBench) execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s did not end by itself within %v; it said:\n%s", args[0], patience, &errs)
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// messageOf is what a person reads: standard error without the log.
func messageOf(stderr string) string {
	var message strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "{") {
			message.WriteString(line)
		}
	}
	return message.String()
}

// treeOf describes everything below a directory: kind, mode, owner, which file it is, and its content.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		about := fmt.Sprintf("%v, owner %d:%d, inode %d", info.Mode(), stat.Uid, stat.Gid, stat.Ino)
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			about += ", content " + string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			about += ", to " + to
		}
		name, err := filepath.Rel(dir, path)
		tree[name] = about
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// compareTrees asserts that nothing was changed, removed, or created but what may be.
func compareTrees(t *testing.T, before, after map[string]string, mayCreate []string) {
	t.Helper()
	for name, was := range before {
		is, there := after[name]
		switch {
		case !there:
			t.Errorf("%s was removed", name)
		case is != was && !(slices.Contains(lockFile, name) && slices.Contains(mayCreate, name)):
			// The lock file's content is the process id of whoever had it last.
			t.Errorf("%s was changed", name)
		}
	}
	for name := range after {
		if _, there := before[name]; !there && !slices.Contains(mayCreate, name) {
			t.Errorf("%s was created", name)
		}
	}
}
