package kmsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/kmsclient"
)

const canary = "CANARY"

// service is a scripted KMS v2 service that notes what it was sent.
type service struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	calls     atomic.Int32
	failure   error // of Status
	authority atomic.Pointer[string]
}

func (s *service) Status(ctx context.Context, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	s.calls.Add(1)
	md, _ := metadata.FromIncomingContext(ctx)
	authority := strings.Join(md.Get(":authority"), ",")
	s.authority.Store(&authority)
	if _, ok := peer.FromContext(ctx); !ok {
		return nil, status.Error(codes.Internal, "no peer")
	}
	if s.failure != nil {
		return nil, s.failure
	}
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: "obk2.one"}, nil
}

func (s *service) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	s.calls.Add(1)
	return &kmsapi.EncryptResponse{Ciphertext: append([]byte(r.Uid+":"), r.Plaintext...), KeyId: "obk2.one", Annotations: map[string][]byte{"a.kms": {1}}}, nil
}

func (s *service) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	s.calls.Add(1)
	if r.KeyId != "obk2.one" || !bytes.Equal(r.Annotations["a.kms"], []byte{1}) {
		return nil, status.Error(codes.InvalidArgument, "not what Encrypt answered")
	}
	return &kmsapi.DecryptResponse{Plaintext: append([]byte(r.Uid+"<"), r.Ciphertext...)}, nil
}

// directory has a short path: a socket's may have 107 bytes.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", canary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func serve(t *testing.T, path string, s *service) *grpc.Server {
	t.Helper()
	l := listen(t, path)
	server := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(server, s)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return server
}

func client(t *testing.T, path string) *kmsclient.Client {
	t.Helper()
	c, err := kmsclient.New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A path is taken as it is, whatever it would mean in a URL, and the environment
// changes nothing.
func TestCallsOnAnyPath(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	for _, name := range []string{"kms.sock", "with space.sock", "100%.sock", "%2e%2e%2f.sock", "a#b.sock", "a?b=c.sock", "ä:@&=+$,;[].sock", "@kms.sock", `back\slash`} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(directory(t), name)
			s := &service{}
			serve(t, path, s)
			c := client(t, path)
			st, err := c.Status(t.Context())
			if err != nil || st.Version != "v2" || st.Healthz != "ok" || st.KeyId != "obk2.one" {
				t.Fatalf("Status = %v, %v", st, err)
			}
			if authority := *s.authority.Load(); authority != "localhost" {
				t.Errorf("the authority is %q", authority)
			}
			e, err := c.Encrypt(t.Context(), "one", []byte("seed"))
			if err != nil || string(e.Ciphertext) != "one:seed" {
				t.Fatalf("Encrypt = %v, %v", e, err)
			}
			d, err := c.Decrypt(t.Context(), "two", e)
			if err != nil || string(d.Plaintext) != "two<one:seed" {
				t.Fatalf("Decrypt = %v, %v", d, err)
			}
			if n := s.calls.Load(); n != 3 {
				t.Errorf("%d calls arrived, want 3", n)
			}
		})
	}
}

func TestNotAPath(t *testing.T) {
	for _, path := range []string{"", "kms.sock", "@kms.sock", "unix:///run/kms.sock", "\x00kms"} {
		if c, err := kmsclient.New(path); err == nil || c != nil || !strings.Contains(err.Error(), "correct server.socketPath") {
			t.Errorf("New(%q): %v", path, err)
		}
	}
}

// What the provider refuses arrives as it said it, once: nothing is repeated.
func TestTheProvidersOwnErrors(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.FailedPrecondition, codes.ResourceExhausted, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			path := filepath.Join(directory(t), "kms.sock")
			s := &service{failure: status.Error(code, "openbao_sealed: its own words")}
			serve(t, path, s)
			_, err := client(t, path).Status(t.Context())
			if status.Code(err) != code || status.Convert(err).Message() != "openbao_sealed: its own words" {
				t.Errorf("%v", err)
			}
			if unreachable, ok := errors.AsType[*kmsclient.UnreachableError](err); ok {
				t.Errorf("an answer counts as %v", unreachable)
			}
			if n := s.calls.Load(); n != 1 {
				t.Errorf("%d calls arrived, want 1", n)
			}
		})
	}
}

// TestUnreachable: why no connection can be made is told by the error's kind,
// and nothing tells where the socket is.
func TestUnreachable(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		want    error
	}{
		"no socket": {func(*testing.T, string) {}, fs.ErrNotExist},
		"no directory": {func(t *testing.T, path string) {
			if err := os.Remove(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
		}, fs.ErrNotExist},
		"nobody serves it": {func(t *testing.T, path string) {
			l := listen(t, path).(*net.UnixListener)
			l.SetUnlinkOnClose(false)
			l.Close()
		}, syscall.ECONNREFUSED},
		"a file": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, syscall.ECONNREFUSED},
		"a link to itself": {func(t *testing.T, path string) {
			if err := os.Symlink(path, path); err != nil {
				t.Fatal(err)
			}
		}, syscall.ELOOP},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(directory(t), "kms.sock")
			c.prepare(t, path)
			_, err := client(t, path).Status(t.Context())
			unreachable, ok := errors.AsType[*kmsclient.UnreachableError](err)
			if !ok || !errors.Is(err, c.want) {
				t.Fatalf("%v (%T), want %v", err, err, c.want)
			}
			if !strings.HasPrefix(err.Error(), "KMS socket: no connection: connect: ") || strings.Contains(fmt.Sprintf("%v %#v", err, unreachable), canary) {
				t.Errorf("the error is %q", err)
			}
		})
	}
	t.Run("a path that is too long", func(t *testing.T) {
		_, err := client(t, filepath.Join(directory(t), strings.Repeat("x", 200))).Status(t.Context())
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v, want %v", err, syscall.EINVAL)
		}
	})
}

// TestAnotherServer: what is there speaks something else, breaks off, or says
// nothing at all.
func TestAnotherServer(t *testing.T) {
	for name, c := range map[string]struct {
		behave func(net.Conn)
		code   codes.Code
	}{
		"closes":           {func(net.Conn) {}, codes.Unavailable},
		"another greeting": {func(conn net.Conn) { _, _ = io.WriteString(conn, "220 mail.test ESMTP\r\n") }, codes.Unavailable},
		"reads and closes": {func(conn net.Conn) { _, _ = conn.Read(make([]byte, 24)) }, codes.Unavailable},
		"silent":           {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(directory(t), "kms.sock")
			l := listen(t, path)
			go func() { // ends when the listener is closed
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					c.behave(conn)
					conn.Close()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if c.code == codes.Unavailable {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
			}
			defer cancel()
			_, err := client(t, path).Status(ctx)
			if status.Code(err) != c.code || strings.Contains(err.Error(), canary) {
				t.Errorf("%v, want %v and no path", err, c.code)
			}
			if unreachable, ok := errors.AsType[*kmsclient.UnreachableError](err); ok {
				t.Errorf("a server that is there counts as %v", unreachable)
			}
		})
	}
}

// A provider that starts later, or again, is found by the same client.
func TestTheProviderComesAndGoes(t *testing.T) {
	path := filepath.Join(directory(t), "kms.sock")
	c := client(t, path)
	if _, err := c.Status(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before it starts: %v", err)
	}
	for range 2 {
		server := serve(t, path, &service{})
		until(t, "it answers", func() bool {
			_, err := c.Status(t.Context())
			return err == nil
		})
		server.Stop()
		until(t, "it is gone", func() bool {
			_, err := c.Status(t.Context())
			return errors.Is(err, fs.ErrNotExist)
		})
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
