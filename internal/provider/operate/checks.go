package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/kmsclient"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/securefile"
	"github.com/baokms/baokms/internal/provider/store"
)

// The checks of an apply beside those of its plan.
const (
	// stateLock: no other process writes the state.
	stateLock = "state.lock"
	// registryState is the plan's, and here that of the files under the lock.
	registryState = "registry.state"
	// planReviewed: the registry is the one that the reviewed plan was made from, or
	// has become by applying it.
	planReviewed = "plan.reviewed"
	// planOutcome: the outcome is the one that was reviewed.
	planOutcome = "plan.outcome"
	// stateSaved: the new generation is durable.
	stateSaved = "state.saved"
)

// Reason codes.
const (
	reasonLocked        = "state_locked"
	reasonRunning       = "provider_running"
	reasonSocketDenied  = "socket_access_denied"
	reasonUnavailable   = string(registry.StateUnavailable)
	reasonStale         = "plan_stale"
	reasonDiffers       = "plan_differs"
	reasonHashMalformed = "state_hash_malformed"
)

func passed(id, message string) command.Check {
	return command.Check{ID: id, Impact: command.Safety, Result: command.Pass, Message: message}
}

func failed(id, reason, message, nextStep string) command.Check {
	return command.Check{ID: id, Impact: command.Safety, Result: command.Fail, Reason: reason, Message: message, NextStep: nextStep}
}

// notLocked says why the lock was not to be had.
func (j job) notLocked(err error) command.Check {
	locked, ok := errors.AsType[*store.LockedError](err)
	if !ok {
		message, next := fileProblem(err)
		return failed(stateLock, reasonUnavailable, message, next)
	}
	return failed(stateLock, reasonLocked, locked.Holder()+" holds the lock of the state, and nothing was changed",
		stopFirst+"; if the process is another "+j.name+", wait until it has ended")
}

const stopFirst = "stop the provider on this node first ('systemctl stop bao-kms-provider'; of a static pod move the manifest away), and run the same command again"

// answerWithin is how long a process at the provider's socket may take to answer;
// a provider answers from memory.
const answerWithin = 3 * time.Second

// alone looks, with the lock held, for a provider that runs all the same: the lock
// is no longer its own when its lock file was removed. Only where no connection
// can be made is there none.
func (j job) alone(ctx context.Context, socketPath string) command.Check {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	client, err := kmsclient.New(socketPath)
	if err != nil {
		return notSeen
	}
	defer client.Close()
	_, err = client.Status(ctx)
	switch unreachable, ok := errors.AsType[*kmsclient.UnreachableError](err); {
	case !ok: // whatever it answers, or that it does not answer in time
		return failed(stateLock, reasonRunning, "a process serves server.socketPath without the lock of the state, as a provider does whose lock file was removed; nothing was changed",
			stopFirst+"; 'ss -xlp' names the process; never remove the lock file")
	case errors.Is(unreachable, unix.ENOENT), errors.Is(unreachable, unix.ENOTDIR), errors.Is(unreachable, unix.ECONNREFUSED):
		return passed(stateLock, "no other process writes the state")
	}
	return notSeen
}

var notSeen = failed(stateLock, reasonSocketDenied, "whether a provider runs cannot be seen: server.socketPath cannot be connected to; nothing was changed",
	"run the command as the provider's user; if this is that user, see which process serves the socket (ss -xlp) and stop it, or remove the socket if there is none")

// notLoaded says what is wrong with the files.
func notLoaded(err error) command.Check {
	message, next := fileProblem(err)
	return failed(registryState, reasonUnavailable, message, next)
}

// noState refuses a fresh node: an apply makes no state.
var noState = failed(registryState, reasonUnavailable, "this node has no key registry yet, so there is nothing to change",
	"start the provider once; if this node has served before, restore its state file and checkpoint first")

// judge holds the registry against the reviewed hashes. applied: it is the reviewed
// outcome already.
func (j job) judge(current *registry.Registry) (check command.Check, applied bool) {
	hash, next := j.reviewed.StateHash, j.reviewed.NextStateHash
	switch {
	case !registry.IsHash(hash), next != "" && !registry.IsHash(next):
		return failed(planReviewed, reasonHashMalformed, `an expected hash is not "sha256:" and 64 lower-case hex digits`,
			"give the stateHash and the nextStateHash of the reviewed plan as they are printed"), false
	case current.Hash() == hash:
		return passed(planReviewed, fmt.Sprintf("the registry is the reviewed one, generation %d", current.Generation())), false
	case current.Hash() != next || current.PreviousHash() != hash:
		return j.stale(current), false
	case !j.done(current):
		return j.differs("the reviewed plan is applied already, and it was not what this command asks for"), false
	}
	return passed(planReviewed, fmt.Sprintf("this plan is applied already: the registry, generation %d, is its reviewed outcome", current.Generation())), true
}

// stale is a registry that the plan was not made from. Without the reviewed
// outcome nobody can tell whether its direct successor is that plan's.
func (j job) stale(current *registry.Registry) command.Check {
	message := fmt.Sprintf("the registry is not the one that was reviewed: it is at generation %d now, with the state hash %s", current.Generation(), current.Hash())
	if j.reviewed.NextStateHash == "" && current.PreviousHash() == j.reviewed.StateHash {
		return failed(planReviewed, reasonStale, message+"; it follows directly from the reviewed one, so this may be the plan itself, applied already",
			"run the same command without --apply and the hashes: if so, "+j.tells+"; else have that plan reviewed, and apply it")
	}
	return failed(planReviewed, reasonStale, message, again)
}

const again = "run the same command without --apply and the hashes, have that plan reviewed, and apply it"

// outcome holds what the plan makes now against what was reviewed.
func (j job) outcome(next *registry.Registry) command.Check {
	if next.Hash() != j.reviewed.NextStateHash {
		return j.differs(fmt.Sprintf("the plan is another one than was reviewed: its outcome is generation %d with the state hash %s", next.Generation(), next.Hash()))
	}
	return passed(planOutcome, "the outcome is the reviewed one")
}

func (j job) differs(message string) command.Check {
	return failed(planOutcome, reasonDiffers, message+"; nothing was changed",
		"see whether "+j.argument+" and both hashes are those of the reviewed plan; if they are, "+again)
}

// fileProblem words what is wrong with the state's files without their paths.
func fileProblem(err error) (message, next string) {
	var system error
	if e, ok := errors.AsType[*store.Error](err); ok {
		message, next, system = e.Problem, e.Fix, e.Err
		if !strings.HasPrefix(message, "the ") {
			message = fileName(e.Path) + " " + message
		}
	} else if e, ok := errors.AsType[*securefile.Error](err); ok {
		message, next, system = "state.path "+e.Problem, e.Fix, e.Err
	} else {
		message = "the state cannot be used"
	}
	if errno, ok := errors.AsType[unix.Errno](system); ok {
		message += ": " + errno.Error()
	}
	if next == "" || strings.Contains(next, "/") {
		next = "run 'bao-kms-provider doctor' as the provider's user and do what it says of registry.state"
	}
	return message, next
}

// fileName is what the person at the node calls a file.
func fileName(path string) string {
	switch {
	case strings.HasSuffix(path, ".checkpoint"):
		return "the checkpoint"
	case strings.HasSuffix(path, ".lock"):
		return "the lock file"
	}
	return "the state file"
}
