package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kmsclient"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// Reason codes of socket.kms and status.consistency that are not reasons of Status.
const (
	reasonNotRunning         = "provider_not_running"
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

// checkSocketKMS asks the running provider for its Status, as the API server does.
func checkSocketKMS(ctx context.Context, e *exam) finding {
	path := e.config.Server.SocketPath
	switch f, listens := dial(ctx, path); {
	case !listens && f.result == command.Skip:
		return e.notRunning(f)
	case !listens:
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
	noProvider   = "no provider serves server.socketPath: none runs, or one is still starting; its log says which"
	findListener = "see which process it is (ss -xlp), stop it, and start the provider"
)

// notRunning judges that no provider runs: before the first start none need be
// there, and rotation-plan and verify-rotation tell it in their own words.
func (e *exam) notRunning(found finding) finding {
	if !e.mustServe {
		return found
	}
	if e.o.EncryptionConfig == "" {
		switch e.trace() {
		case noState:
			return found
		case hiddenState:
			return skippedFor(registryState)
		}
	}
	return failed(reasonNotRunning, found.message,
		"see its log (journalctl -u bao-kms-provider, or crictl logs): it says what it waits for, or why it ended; "+
			"if none runs, start it (systemctl start bao-kms-provider, or see why the static pod does not run: crictl ps -a)")
}

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
		return skipped(noProvider + " (there is nothing at that path)"), false
	case errors.Is(err, unix.ECONNREFUSED):
		return skipped(noProvider + " (nobody listens there)"), false
	case errors.Is(err, unix.EACCES):
		return failed(reasonSocketDenied, thisUser()+" may not connect to server.socketPath", runAsProvider+", or as a member of server.socketGroup"), false
	case errors.Is(err, unix.EAGAIN), ctx.Err() != nil:
		return failed(reasonNoAnswer, "a process listens at server.socketPath and takes no connections: no live provider was seen", frozen), false
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
		return failed(reasonNoAnswer, fmt.Sprintf("a process listens at server.socketPath and did not answer Status within %v: no live provider was seen", statusTimeout), frozen)
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
