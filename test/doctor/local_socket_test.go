package doctor

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/test/stack"
)

// TestSocketPath breaks where the sockets are to be.
func TestSocketPath(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, worldOptions{}).transit
	run := func(f func(*testing.T, string)) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { t.Helper(); f(t, filepath.Dir(w.files.Socket)) }
	}
	in := func(f func(*testing.T, string)) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { t.Helper(); f(t, w.files.Socket) }
	}
	for _, c := range []struct {
		name   string
		spoil  func(t *testing.T, w *world)
		fields map[string]any
		result command.Result
		reason string
		words  []string
	}{
		{"in order", nil, nil, command.Pass, "", nil},
		{"directory open to all", run(mode(0o777)), nil, command.Fail, "socket_path_unsafe", []string{"server.socketPath: the directory is writable by everyone", "chmod o-w"}},
		{"directory of another user", run(owner(stranger)), nil, command.Fail, "socket_path_unsafe", []string{"the directory is owned by user 12345", "runuser -u"}},
		{"directory is a link", run(link), nil, command.Fail, "socket_path_unsafe", []string{"the directory is a symbolic link"}},
		{"directory is a file", run(after(remove, content("x", 0o600))), nil, command.Fail, "socket_path_unsafe", []string{"is not a directory"}},
		{"no directory", run(remove), nil, command.Warn, "socket_directory_missing", []string{"the directory of server.socketPath does not exist"}},
		{"a file in its place", in(content("x", 0o600)), nil, command.Fail, "socket_path_unsafe", []string{"server.socketPath: is a regular file, not a socket"}},
		{"a link in its place", in(after(content("x", 0o600), link)), nil, command.Fail, "socket_path_unsafe", []string{"a symbolic link, not a socket"}},
		{"nobody serves it", in(abandoned), nil, command.Pass, "", []string{"nobody serves", "next start replaces it"}},
		{"no such group", nil, map[string]any{"server.socketGroup": "doctor-no-such-group"}, command.Fail, "socket_group_invalid", []string{"server.socketGroup", "does not have", "create the group"}},
		{"the report socket's directory", func(t *testing.T, w *world) { t.Helper(); mode(0o777)(t, filepath.Dir(w.files.ReportSocket)) }, nil,
			command.Fail, "socket_path_unsafe", []string{"server.reportSocketPath: the directory is writable by everyone"}},
		{"no report socket", func(t *testing.T, w *world) { t.Helper(); remove(t, filepath.Dir(w.files.ReportSocket)) }, map[string]any{"server.reportSocketPath": nil}, command.Pass, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{fields: c.fields})
			if c.spoil != nil {
				c.spoil(t, w)
			}
			r := examine(t, w)
			expect(t, r, "socket.path", c.result, c.reason, c.words...)
			var failing []string
			if c.reason != "" {
				failing = []string{"socket.path"}
			}
			onlyFails(t, r, failing...)
			expect(t, r, "socket.kms", command.Skip, "", "none runs, or one is still starting")
			skippedBecause(t, r, "status.consistency", "socket.kms")
		})
	}
}

// abandoned leaves a socket as a killed provider does.
func abandoned(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
}

// TestTheRunningProvider looks at one that is well, frozen, unhealthy, killed, and of other files.
func TestTheRunningProvider(t *testing.T) {
	t.Parallel()
	w, whole := newWorld(t, worldOptions{}), t
	w.serve(t)
	r := examine(t, w)
	expect(t, r, "socket.kms", command.Pass, "", "healthy")
	passes(t, r, "socket.path", "status.consistency", "registry.state", "registry.checkpoint")
	onlyFails(t, r)

	t.Run("of another configuration", func(t *testing.T) {
		w.configure(t, map[string]any{"server.socketMode": "0600"})
		r := examine(t, w)
		expect(t, r, "socket.path", command.Warn, "socket_permissions_differ", "mode 0660", "0600", "restart the provider")
		onlyFails(t, r, "socket.path")
		w.configure(t, map[string]any{"server.socketMode": nil})
	})
	t.Run("frozen", func(t *testing.T) {
		must(t, w.provider.Signal(syscall.SIGSTOP))
		r := examine(t, w)
		verified := examineWith(t, w, diagnose.VerifyRotation)
		must(t, w.provider.Signal(syscall.SIGCONT))
		expect(t, verified, "socket.kms", command.Fail, "status_no_answer", "no live provider was seen")
		expect(t, verified, "status.consistency", command.Skip, "", "no live provider was seen, so which key_id this node gives out is not known")
		expect(t, r, "socket.kms", command.Fail, "status_no_answer", "did not answer Status within 3s: no live provider was seen", "restart the provider")
		onlyFails(t, r, "socket.kms")
		passes(t, r, "socket.path")
		await(t, "the provider is ready again", func() error { return w.ready(t.Context()) })
	})
	t.Run("without its state file", func(t *testing.T) {
		// It looks at its files at its start, and not again for now: whether it has noticed is not chance.
		quick := w.fields
		again := func() { w.stop(t); must(t, w.files.WriteConfig(w.transit, w.fields)); w.serve(whole) }
		w.fields = stepwise
		again()
		files := pairOf(t, w)
		lose := func() { remove(t, w.files.State); remove(t, w.files.State+".checkpoint") }
		lose()
		r := examine(t, w)
		expect(t, r, "status.consistency", command.Fail, "status_inconsistent", "no usable state file", "do not restart it before")
		onlyFails(t, r, "status.consistency")
		files.put(t, w)
		onlyFails(t, examine(t, w))

		w.fields = quick
		again()
		lose()
		await(t, "the provider misses its files", func() error {
			if w.ready(t.Context()) == nil {
				return os.ErrDeadlineExceeded
			}
			return nil
		})
		files.put(t, w)
		await(t, "the provider has found its files again", func() error { return w.ready(t.Context()) })
		onlyFails(t, examine(t, w))
	})
	t.Run("sealed", func(t *testing.T) {
		must(t, w.transit.Seal(t.Context()))
		await(t, "the provider is unhealthy", func() error {
			if w.ready(t.Context()) == nil {
				return os.ErrDeadlineExceeded
			}
			return nil
		})
		r := examine(t, w)
		c := checkOf(t, r, "socket.kms")
		if c.Result != command.Fail || c.Reason != "metadata_read_failed" && c.Reason != "deep_probe_failed" && c.Reason != "circuit_breaker_open" {
			t.Errorf("socket.kms is %s %q: %s", c.Result, c.Reason, told(c))
		}
		expect(t, r, "socket.kms", command.Fail, c.Reason, "the running provider is not healthy: ")
		onlyFails(t, r, "openbao.reachable", "socket.kms")
		skippedBecause(t, r, "status.consistency", "socket.kms")
		must(t, w.transit.Unseal(t.Context()))
		await(t, "the provider is ready again", func() error { return w.ready(t.Context()) })
		onlyFails(t, examine(t, w))
	})
	t.Run("killed", func(t *testing.T) {
		w.provider.Kill()
		w.provider = nil
		r := examine(t, w)
		expect(t, r, "socket.path", command.Pass, "", "nobody serves")
		expect(t, r, "socket.kms", command.Fail, "provider_not_running", "nobody listens there")
		stopped(t, r)
	})
}

// TestBeforeTheFirstStart: nobody needs to serve yet, unless the API server is told to use the provider.
func TestBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	r := examine(t, w)
	expect(t, r, "socket.kms", command.Skip, "", "none runs, or one is still starting", "there is nothing at that path")
	onlyFails(t, r)
	file := filepath.Join(w.files.Dir, "encryption.yaml")
	must(t, stack.EncryptionConfig{Provider: stack.ProviderName, Socket: w.files.Socket}.Write(file))
	r = examine(t, w, withEncryptionConfig(file))
	passes(t, r, "encryptionconfig.provider")
	stopped(t, r)
}

// TestSocketDirectoryOfAnotherGroup: an API server that is let in by the group must get into the directory.
func TestSocketDirectoryOfAnotherGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{fields: map[string]any{"server.socketGroup": "12346", "server.reportSocketPath": nil}})
	// Before the first start, a group that root would not need: somebody else will serve.
	const asRoot = "config.permissions"
	r := examine(t, w)
	expect(t, r, asRoot, command.Warn, "looked_as_root", "whether the provider's user may is not judged", "runuser -u")
	expect(t, r, "socket.path", command.Warn, "socket_directory_closed", "the group in server.socketGroup cannot enter the directory of server.socketPath", "does not run as root", "mode 0750")
	onlyFails(t, r, "socket.path", asRoot)
	must(t, os.Chown(filepath.Dir(w.files.Socket), -1, 12346))
	mode(0o750)(t, filepath.Dir(w.files.Socket))
	r = examine(t, w)
	passes(t, r, "socket.path")
	onlyFails(t, r, asRoot)
}

// TestTheProviderServesAnotherVersion: the files are of an older generation than what the running provider has.
func TestTheProviderServesAnotherVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	w.stop(t)
	first := pairOf(t, w)
	w.rotate(t, 2)
	w.promote(t, 2)
	w.configure(t, stepwise) // it looks at its files itself, but not again for now
	w.serve(t)
	last := pairOf(t, w)
	onlyFails(t, examine(t, w))
	first.put(t, w)
	r := examine(t, w)
	expect(t, r, "status.consistency", command.Fail, "status_inconsistent", "serves a key that this state file does not know", "keep both state files")
	onlyFails(t, r, "status.consistency")
	last.put(t, w)
	onlyFails(t, examine(t, w))
}

// TestSomethingElseListens: other programs at server.socketPath.
func TestSomethingElseListens(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, worldOptions{}).transit
	for _, c := range []struct {
		name, reason, words string
		serve               func(l net.Listener)
	}{
		{"hangs up", "not_kms_v2", "does not speak KMS v2", func(l net.Listener) {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
			}
		}},
		{"another gRPC service", "not_kms_v2", "does not speak KMS v2", func(l net.Listener) { _ = grpc.NewServer().Serve(l) }},
		{"never answers", "status_no_answer", "did not answer Status", func(net.Listener) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{})
			l, err := net.Listen("unix", w.files.Socket)
			must(t, err)
			must(t, os.Chmod(w.files.Socket, 0o660))
			done := make(chan struct{})
			go func() { defer close(done); c.serve(l) }() // ends when the listener is closed
			r := examine(t, w)
			_ = l.Close()
			<-done
			expect(t, r, "socket.kms", command.Fail, c.reason, c.words)
			onlyFails(t, r, "socket.kms")
		})
	}
}
