package benchmark

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/kmsclient"
)

// healthy is what a healthy provider's Status says.
const healthy = "ok"

const runDoctor = "run `bao-kms-provider doctor`, which says what is wrong"

var errKeyChanged = errors.New("the provider changed its active key during the run: run the benchmark again when the promotion is over")

// wrongAnswer is an answer that came without an error and is not right.
func wrongAnswer(what string) error {
	return fmt.Errorf("the answer is wrong, %s: trust no new ciphertext of this node; check what stands between it and OpenBao, and "+runDoctor, what)
}

// bareFailure says what became of a bare call.
func bareFailure(err error) error {
	c := fault.CauseOf(err)
	text := c.Text()
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Cause == c {
		text = f.Error()
	}
	return fmt.Errorf("%s [%s]: %s", text, c.Class(), nextStep(c))
}

// socketFailure says what became of a call through the socket. The provider
// answers with a code and a fixed text; nothing else is repeated.
func socketFailure(err error) error {
	if u, ok := errors.AsType[*kmsclient.UnreachableError](err); ok {
		return unreachable(u)
	}
	s := grpcstatus.Convert(err)
	if c, ok := causeOf(s); ok {
		return fmt.Errorf("%s [%s]: %s", c.Text(), c.Class(), nextStep(c))
	}
	switch s.Code() {
	case codes.Unavailable:
		return errors.New("the connection to the provider broke: look into its log, and start it again if it has ended")
	case codes.DeadlineExceeded:
		return fmt.Errorf("the provider did not answer within %v [%s]: %s", callTimeout, fault.ClassTimeout, nextStep(fault.TimedOut))
	case codes.Unimplemented:
		return errors.New("what serves server.socketPath is no KMS v2 provider: check the path")
	}
	return fmt.Errorf("what serves server.socketPath answers with %s in words that are not this provider's: check what serves it", s.Code())
}

// unreachable says why there is no connection to the socket.
func unreachable(err *kmsclient.UnreachableError) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return errors.New("this user may not use server.socketPath: run the benchmark as the provider's user, or as a member of server.socketGroup")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("no provider serves server.socketPath: start it, or look into its log if it has just ended; the benchmark measures a running provider")
	}
	return fmt.Errorf("server.socketPath cannot be reached: %w: check what is at that path", err.Err)
}

// causeOf finds the row of the error policy that an answer comes from.
func causeOf(s *grpcstatus.Status) (fault.Cause, bool) {
	for c := fault.Unknown; c <= fault.DeadlineExceeded; c++ {
		if c != fault.None && c.Code() == s.Code() && c.Text() == s.Message() {
			return c, true
		}
	}
	return fault.Unknown, false
}

// nextStep is for the operator whose benchmark ended.
func nextStep(c fault.Cause) string {
	switch c {
	case fault.ConcurrencyLimited:
		return "others use the provider at the same time; use fewer callers, or measure when the node is quieter"
	case fault.RateLimited:
		return "the limit holds for the API server's requests too; use fewer callers, or raise it in OpenBao"
	case fault.TimedOut, fault.DeadlineExceeded:
		return "use fewer callers; if it happens with one, " + runDoctor
	case fault.KeyChanged:
		return "run the benchmark again when the promotion is over"
	}
	return runDoctor
}

// reason repeats a provider's word for its state if it is one.
func reason(healthz string) string {
	for _, r := range healthz {
		if (r < 'a' || r > 'z') && r != '_' {
			return "for a reason that it does not name"
		}
	}
	if healthz == "" || len(healthz) > 64 {
		return "for a reason that it does not name"
	}
	return healthz
}
