package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kmsclient"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/socket"
	"github.com/baokms/baokms/internal/provider/status"
)

// Reason codes of the sockets' checks that are not reasons of Status.
const (
	reasonSocketGroup        = "socket_group_invalid"
	reasonSocketUnsafe       = "socket_path_unsafe"
	reasonNoSocketDir        = "socket_directory_missing"
	reasonSocketMode         = "socket_permissions_differ"
	reasonSocketDenied       = "socket_access_denied"
	reasonNoAnswer           = "status_no_answer"
	reasonNotKMSv2           = "not_kms_v2"
	reasonStatusRefused      = "status_refused"
	reasonUnhealthy          = "provider_unhealthy"
	reasonStatusOfAnotherKey = "status_inconsistent"
)

const (
	// statusTimeout is how long the running provider may take to answer; it
	// answers from memory.
	statusTimeout = 3 * time.Second
	// settleTimeout is how long Status and the files may differ: a promotion is on
	// disk before its key has been proved and served.
	settleTimeout = 5 * time.Second

	kmsVersion = "v2"
	healthzOK  = "ok"
)

// checkSocketPath judges where the sockets are, and who may use them, without
// binding anything.
func checkSocketPath(_ context.Context, e *exam) finding {
	s := e.config.Server
	gid, bad := e.socketGroup()
	if bad != nil {
		return *bad
	}
	worst := finding{}
	for _, each := range []struct{ field, path string }{{"server.socketPath", s.SocketPath}, {"server.reportSocketPath", s.ReportSocketPath}} {
		if each.path == "" {
			continue
		}
		f := judgeSocket(each.field, each.path, gid, s)
		if severity(f) > severity(worst) || worst.message == "" {
			worst = f
		}
	}
	return worst
}

// severity orders findings, the worst last.
func severity(f finding) int {
	return slices.Index([]string{"", "skip", "pass", "warn", "fail"}, string(f.result))
}

// socketGroup resolves server.socketGroup, and makes sure that this user may give
// a socket that group.
func (e *exam) socketGroup() (gid int, bad *finding) {
	gid, err := e.config.Server.SocketGroup.GID()
	if err != nil {
		text, next := "server.socketGroup cannot be looked up on this node", "see that the group list of this node can be read, or write a decimal group ID"
		if refused, ok := errors.AsType[*config.Error](err); ok && len(refused.Problems) == 1 {
			p := refused.Problems[0]
			text, next = p.Field+" "+p.Text, p.Fix
		}
		f := failed(reasonSocketGroup, text, next)
		return 0, &f
	}
	if os.Geteuid() == 0 || gid == os.Getegid() {
		return gid, nil
	}
	if groups, err := os.Getgroups(); err == nil && slices.Contains(groups, gid) {
		return gid, nil
	}
	f := failed(reasonSocketGroup, userName(os.Geteuid())+" is no member of server.socketGroup, so the socket cannot be given that group",
		"if this is not the provider's user, "+runAsProvider+"; else make it a member (usermod -aG GROUP USER) and restart the provider")
	return 0, &f
}

// judgeSocket judges one of the sockets.
func judgeSocket(field, path string, gid int, s config.Server) finding {
	found, err := socket.Check(path)
	if err != nil {
		return socketFault(field, path, err)
	}
	switch found.State {
	case socket.Stale:
		return passed(field + " is a socket that nobody serves: the provider's next start replaces it")
	case socket.Served:
		if want := s.SocketMode.FileMode(); found.Mode != want || found.GID != gid {
			return warning(reasonSocketMode, fmt.Sprintf("%s has mode %04o and group %d, the configuration says %04o and %d", field, found.Mode, found.GID, want, gid),
				"restart the provider: it makes the socket anew, with what the configuration says")
		}
	}
	return finding{}
}

// socketFault tells what is wrong with a socket's path, without the path.
func socketFault(field, path string, err error) finding {
	f, ok := errors.AsType[*socket.Error](err)
	if !ok {
		return failed(reasonSocketUnsafe, field+" cannot be examined", "check its directory")
	}
	dir := filepath.Dir(path)
	if errors.Is(err, socket.ErrNoDirectory) {
		return warning(reasonNoSocketDir, "the directory of "+field+" does not exist",
			"create it, owned by the provider's user or root with mode 0750, unless the service's unit makes it (RuntimeDirectory)")
	}
	problem, next := strings.ReplaceAll(f.Problem, " "+dir, ""), f.Fix
	if strings.Contains(next, "/") { // a path
		next = "correct " + field
	}
	if errno, ok := errors.AsType[unix.Errno](f.Err); ok {
		problem += ": " + errno.Error()
	}
	if st := new(unix.Stat_t); unix.Lstat(dir, st) == nil && st.Uid != 0 && int(st.Uid) != os.Geteuid() || errors.Is(err, unix.EACCES) {
		next = "if this is not the provider's user, " + runAsProvider + "; else " + next
	}
	return failed(reasonSocketUnsafe, field+": "+problem, next)
}

// checkSocketKMS asks the running provider for its Status, as the API server does.
func checkSocketKMS(ctx context.Context, e *exam) finding {
	path := e.config.Server.SocketPath
	if f, listens := dial(ctx, path); !listens {
		return f
	}
	answer, err := askStatus(ctx, path)
	if err != nil {
		return statusFault(err)
	}
	e.running = answer
	switch {
	case answer.version != kmsVersion:
		return failed(reasonNotKMSv2, "what listens at server.socketPath answers Status with another version than v2", findListener)
	case answer.healthz != healthzOK:
		return unhealthy(answer.healthz)
	case identity.ParseKeyID(answer.keyID) != nil:
		return failed(reasonNotKMSv2, "what listens at server.socketPath is healthy with a key_id that this provider never makes: it is another KMS plugin", findListener)
	}
	return passed("the running provider is healthy")
}

const (
	noProvider   = "no provider is running: "
	findListener = "see which process it is (ss -xlp), stop it, and start the provider"
)

// dial finds out whether anybody listens. Without a listener there is no provider
// to look at, which is no failure of this check.
func dial(ctx context.Context, path string) (f finding, listens bool) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return finding{}, true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return skipped(noProvider + "there is nothing at server.socketPath"), false
	case errors.Is(err, unix.ECONNREFUSED):
		return skipped(noProvider + "nobody listens at server.socketPath"), false
	case errors.Is(err, unix.EACCES):
		return failed(reasonSocketDenied, userName(os.Geteuid())+" may not connect to server.socketPath", runAsProvider+", or as a member of server.socketGroup"), false
	case errors.Is(err, unix.EAGAIN), ctx.Err() != nil:
		return failed(reasonNoAnswer, "a process listens at server.socketPath and takes no connections", frozen), false
	}
	return failed(reasonNoAnswer, "server.socketPath cannot be connected to", findListener), false
}

const frozen = "see what the process does (ss -xlp names it, and its log), then restart the provider"

// askStatus asks once.
func askStatus(ctx context.Context, path string) (*running, error) {
	client, err := kmsclient.New(path)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answer, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	return &running{healthz: answer.GetHealthz(), keyID: answer.GetKeyId(), version: answer.GetVersion()}, nil
}

// statusFault is a listener that gave no Status.
func statusFault(err error) finding {
	switch code := grpcstatus.Code(err); code {
	case codes.DeadlineExceeded, codes.Canceled:
		return failed(reasonNoAnswer, fmt.Sprintf("a process listens at server.socketPath and did not answer Status within %v", statusTimeout), frozen)
	case codes.Unimplemented, codes.Unavailable:
		return failed(reasonNotKMSv2, "what listens at server.socketPath does not speak KMS v2", findListener)
	case codes.ResourceExhausted:
		return failed(reasonStatusRefused, "the running provider serves as many Status calls as server.maxConcurrentStatus allows", "look for a caller that asks without end; run this command again")
	default:
		return failed(reasonStatusRefused, "Status failed with the gRPC code "+code.String(), "see kms.request in the provider's log")
	}
}

// unhealthy is a provider that says why it cannot serve. What another program
// might answer is not repeated.
func unhealthy(healthz string) finding {
	reason := status.Reason(healthz)
	a := status.AdviceOn(reason, "")
	if !status.Known(reason) {
		return failed(reasonUnhealthy, "the running provider is not healthy, for a reason that this version does not know", a.NextStep)
	}
	return failed(healthz, "the running provider is not healthy: "+a.Message, a.NextStep)
}

// checkConsistency holds what the provider serves against its files. A promotion
// may be under way between the two looks, so both are looked at again before they
// are said to differ.
func checkConsistency(ctx context.Context, e *exam) finding {
	now, r := e.running, e.registry
	if e.fresh {
		r = nil
	}
	for until := time.Now().Add(settleTimeout); ; pause(ctx, againAfter) {
		if r != nil && now.healthz == healthzOK && now.keyID == r.Active().KeyID {
			return finding{}
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return inconsistent(now, r)
		}
		found := inspect(e.config.State.Path)
		again, err := askStatus(ctx, e.config.Server.SocketPath)
		if err != nil {
			return failed(reasonStatusOfAnotherKey, "the provider stopped answering while it was looked at", "run this command again")
		}
		r, now = found.Registry, again
	}
}

// inconsistent says how they differ.
func inconsistent(now *running, r *registry.Registry) finding {
	const next = "see that the running provider was started with this configuration file; keep both state files, and restart it"
	if r == nil {
		return failed(reasonStatusOfAnotherKey, "a provider serves a key, but there is no usable state file at state.path",
			"see that the running provider was started with this configuration file; do not restart it before the state file is back from a backup or a peer")
	}
	if now.healthz != healthzOK { // meanwhile; it looks at its files itself
		return unhealthy(now.healthz)
	}
	served, known := r.Lookup(now.keyID)
	if !known {
		return failed(reasonStatusOfAnotherKey, "the running provider serves a key that this state file does not know", next)
	}
	return failed(reasonStatusOfAnotherKey, fmt.Sprintf("the running provider serves Transit version %d, but version %d is active in the state file",
		served.TransitVersion, r.Active().TransitVersion), next)
}
