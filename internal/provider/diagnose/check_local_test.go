package diagnose

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
)

// asStranger runs f as a user without rights, on a thread that only f uses. Only
// root can become one.
func asStranger(t *testing.T, f func()) {
	t.Helper()
	const stranger, same = 12345, ^uintptr(0)
	done := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine unless it could be made root's again.
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, stranger, same); errno != 0 {
			done <- errno
			return
		}
		f()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, 0, same); errno != 0 {
			done <- errno
			return
		}
		runtime.UnlockOSThread()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// socketDir is a directory with a path short enough for a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// What only another user may open is told as that, with how to become that user.
func TestAsTheWrongUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody else can become another user
	}
	dir := socketDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	secret, sock := filepath.Join(dir, "file.yaml"), filepath.Join(dir, "kms.sock")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.WriteFile(secret, []byte("configVersion: v1alpha1\n"), 0o600), os.Chmod(sock, 0o600)); err != nil {
		t.Fatal(err)
	}
	e := newExam(Options{ConfigPath: secret, EncryptionConfig: secret, Getenv: func(string) string { return "" }})
	var valid, permissions, encrypted, kms, path, group finding
	asStranger(t, func() {
		valid, permissions = checkConfigValid(t.Context(), e), checkConfigPermissions(t.Context(), e)
		e.config = config.Default()
		e.config.Server.SocketPath = sock
		encrypted, kms = checkEncryptionProvider(t.Context(), e), checkSocketKMS(t.Context(), e)
		e.config.Server.SocketGroup = "12347"
		group = checkSocketPath(t.Context(), e)
		e.config.Server.SocketGroup = config.Group(strconv.Itoa(os.Getegid()))
		path = checkSocketPath(t.Context(), e)
	})
	skip(configPermissions).hold(t, configValid, valid)
	fails("config_unsafe", "cannot be read by user 12345", "run this command as the provider's user", "0640 and 0750").hold(t, configPermissions, permissions)
	fails("encryption_config_unreadable", "cannot be read by user 12345", "--encryption-config - < FILE").hold(t, encryptionKMS, encrypted)
	fails("socket_access_denied", "user 12345 may not connect to server.socketPath", "runuser").hold(t, socketKMS, kms)
	fails("socket_group_invalid", "user 12345 is no member of server.socketGroup", "usermod").hold(t, socketPath, group)
	fails("socket_path_unsafe", "user 12345 may not connect to the socket that is there", "run this command as the provider's user").hold(t, socketPath, path)
}

// answering is a KMS v2 service that answers Status as it is told.
type answering struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	status func() (*kmsapi.StatusResponse, error)
}

func (a answering) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return a.status()
}

// served is an examination of a node whose socket a service serves.
func served(t *testing.T, status func() (*kmsapi.StatusResponse, error)) *exam {
	t.Helper()
	e := newExam(Options{})
	e.config = config.Default()
	e.config.Server.SocketPath = filepath.Join(socketDir(t), "kms.sock")
	l, err := net.Listen("unix", e.config.Server.SocketPath)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(s, answering{status: status})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(func() { s.Stop(); <-done })
	return e
}

var testScope = identity.Scope{ProviderName: testName, ClusterID: "c", OpenBaoInstanceID: "b", TransitMountID: "m", KeyLineageID: "l"}

func TestWhatTheSocketAnswers(t *testing.T) {
	ours := testScope.KeyID(1, 1)
	answer := func(version, healthz, keyID string) func() (*kmsapi.StatusResponse, error) {
		return func() (*kmsapi.StatusResponse, error) {
			return &kmsapi.StatusResponse{Version: version, Healthz: healthz, KeyId: keyID}, nil
		}
	}
	refuse := func(code codes.Code) func() (*kmsapi.StatusResponse, error) {
		return func() (*kmsapi.StatusResponse, error) { return nil, grpcstatus.Error(code, testSecret) }
	}
	for name, c := range map[string]struct {
		status func() (*kmsapi.StatusResponse, error)
		want   want
	}{
		"healthy":               {answer("v2", "ok", ours), pass("healthy")},
		"another version":       {answer("v2beta1", "ok", ours), fails("not_kms_v2", "another version than v2", "ss -xlp")},
		"another plugin":        {answer("v2", "ok", testSecret), fails("not_kms_v2", "another KMS plugin")},
		"no key_id":             {answer("v2", "ok", ""), fails("not_kms_v2")},
		"a reason":              {answer("v2", "versions_blocked", ""), fails("versions_blocked", "a minimum in OpenBao forbids", "lower the minimum")},
		"another one":           {answer("v2", "upsert_allowed", ""), fails("upsert_allowed", "disable_upsert")},
		"a reason of its own":   {answer("v2", testSecret, ""), fails("provider_unhealthy", "does not know", "the provider's log")},
		"too many calls":        {refuse(codes.ResourceExhausted), fails("status_refused", "server.maxConcurrentStatus")},
		"something else failed": {refuse(codes.Internal), fails("status_refused", "Internal", "kms.request")},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.hold(t, socketKMS, checkSocketKMS(t.Context(), served(t, c.status)))
		})
	}
}

// A promotion is on disk before its key is served: for that long, the two may
// differ.
func TestConsistencyWaitsForAPromotion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.json")
	if err := os.Chmod(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	fingerprint := testScope.Fingerprint("m", "k")
	rules := registry.Rules{StableObservations: 1, RejectRollback: true}
	md := registry.Metadata{Latest: 1, CreatedAtUnix: map[int]int64{1: 100}}
	first, err := registry.Bootstrap(testScope, fingerprint, md, 200)
	if err != nil {
		t.Fatal(err)
	}
	md = registry.Metadata{Latest: 2, CreatedAtUnix: map[int]int64{1: 100, 2: 300}}
	pending, _, err := first.Observe(md, rules, 400)
	if err != nil {
		t.Fatal(err)
	}
	promoted, _, err := pending.Promote(md, rules, true, 500)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*registry.Registry{first, pending, promoted} {
		if err := s.Save(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	var asked atomic.Int32
	e := served(t, func() (*kmsapi.StatusResponse, error) {
		r := first
		if asked.Add(1) > 2 { // the key has been proved
			r = promoted
		}
		return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: r.Active().KeyID}, nil
	})
	e.config.State.Path = path
	e.registry = promoted
	pass().hold(t, socketKMS, checkSocketKMS(t.Context(), e))
	pass().hold(t, statusConsistency, checkConsistency(t.Context(), e))
	if n := asked.Load(); n != 3 {
		t.Errorf("Status was asked %d times, want 3", n)
	}

	asked.Store(-1000) // it never serves the new key
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.running.keyID = first.Active().KeyID
	e.registry = promoted
	fails("status_inconsistent", "serves Transit version 1, but version 2 is active in the state file", "keep both state files").
		hold(t, statusConsistency, checkConsistency(ctx, e))
	e.fresh = true
	fails("status_inconsistent", "no usable state file", "do not restart it").hold(t, statusConsistency, checkConsistency(ctx, e))
}
