package benchmark

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kmsclient"
	"github.com/baokms/baokms/internal/provider/version"
)

// noSecret checks that an error has no path, key name or key_id in it.
func noSecret(t *testing.T, c *config.Config, err error) {
	t.Helper()
	for _, secret := range []string{c.State.Path, c.Server.SocketPath, "the-mount", "the-key", bindingOf(t, c, 1).KeyID()} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats %q: %v", secret, err)
		}
	}
}

func TestRunWithoutAUsableRegistry(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, c *config.Config)
		want    string
	}{
		{"no state at all", func(t *testing.T, c *config.Config) {
			saveState(t, c, c.Fingerprint())
			for _, suffix := range []string{"", ".checkpoint"} {
				if err := os.Remove(c.State.Path + suffix); err != nil {
					t.Fatal(err)
				}
			}
		}, "state.path: there is no key registry yet: start the provider, which makes it, and run the benchmark again"},
		{"another configuration's", func(t *testing.T, c *config.Config) {
			other := *c
			other.Transit.KeyName = "another"
			saveState(t, c, other.Fingerprint())
		},
			"state.path: the key registry was made under another configuration: run the benchmark with the configuration of the provider that runs"},
		{"damaged", func(t *testing.T, c *config.Config) {
			saveState(t, c, c.Fingerprint())
			if err := os.WriteFile(c.State.Path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "state.path: the key registry cannot be used: "},
		{"no directory", func(*testing.T, *config.Config) {}, "state.path: the key registry cannot be used: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Config: testConfig(t, shortDir(t)), Build: version.Get()}
			c.prepare(t, o.Config)
			r, err := Run(t.Context(), o)
			if r != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			noSecret(t, o.Config, err)
		})
	}
}

func TestRunWithoutAUsableProvider(t *testing.T) {
	const notKMS = "the provider's first Status: what serves server.socketPath is no KMS v2 provider: check the path"
	const notServing = "the provider's first Status: no provider serves server.socketPath: start it, or look into its log if it has just ended; the benchmark measures a running provider"
	serving := func(answer *kmsapi.StatusResponse) func(*testing.T, string) {
		return func(t *testing.T, path string) { serveStatus(t, path, answer) }
	}
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    string
	}{
		{"no socket", func(*testing.T, string) {}, notServing},
		{"a socket that was left behind", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}, notServing},
		{"not KMS v2", serving(nil), notKMS},
		{"unhealthy", serving(&kmsapi.StatusResponse{Version: "v2", Healthz: "status_stale"}),
			"the provider is not healthy (status_stale), so it does not encrypt: run `bao-kms-provider doctor`, which says what is wrong"},
		{"words of its own", serving(&kmsapi.StatusResponse{Version: "v2", Healthz: "key the-key at the-mount"}),
			"the provider is not healthy (for a reason that it does not name), so it does not encrypt: run `bao-kms-provider doctor`, which says what is wrong"},
		{"another key", serving(&kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: "another"}),
			"the provider on server.socketPath uses another key than its state file names: if a new version was promoted just now, run the benchmark again; " +
				"else run `bao-kms-provider doctor`, which says what is wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Config: testConfig(t, shortDir(t)), Build: version.Get()}
			saveState(t, o.Config, o.Config.Fingerprint())
			c.prepare(t, o.Config.Server.SocketPath)
			r, err := Run(t.Context(), o)
			if r != nil || err == nil || err.Error() != c.want {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			noSecret(t, o.Config, err)
		})
	}
}

// Whatever the provider can answer is told with its class and a next step.
func TestSocketFailuresHaveTheirClass(t *testing.T) {
	for c := fault.Unknown; c <= fault.DeadlineExceeded; c++ {
		if c == fault.None {
			continue
		}
		got := socketFailure(grpcstatus.Error(c.Code(), c.Text())).Error()
		if !strings.HasPrefix(got, c.Text()+" ["+string(c.Class())+"]: ") && c != fault.Panicked {
			t.Errorf("%v: %s", c, got)
		}
	}
	for cause, want := range map[syscall.Errno]string{
		syscall.EACCES:   "this user may not use server.socketPath: run the benchmark as the provider's user, or as a member of server.socketGroup",
		syscall.ENOTSOCK: "server.socketPath cannot be reached: socket operation on non-socket: check what is at that path",
	} {
		if got := socketFailure(&kmsclient.UnreachableError{Err: cause}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, c := range []struct {
		code codes.Code
		want string
	}{
		{codes.Unavailable, "the connection to the provider broke: look into its log, and start it again if it has ended"},
		{codes.DeadlineExceeded, "the provider did not answer within 10s [timeout]: use fewer callers; if it happens with one, run `bao-kms-provider doctor`, which says what is wrong"},
		{codes.DataLoss, "what serves server.socketPath answers with DataLoss in words that are not this provider's: check what serves it"},
	} {
		if got := socketFailure(grpcstatus.Error(c.code, "secret words")).Error(); got != c.want {
			t.Errorf("%s: %q, want %q", c.code, got, c.want)
		}
	}
}
