package operate

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/command"
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
	// planReviewed: the registry is the one that the reviewed plan was made from.
	planReviewed = "plan.reviewed"
	// stateSaved: the new generation is durable.
	stateSaved = "state.saved"
)

// Reason codes.
const (
	reasonLocked        = "state_locked"
	reasonUnavailable   = string(registry.StateUnavailable)
	reasonStale         = "plan_stale"
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
		"stop the provider on this node first ('systemctl stop bao-kms-provider'; of a static pod move the manifest away), and run the same command again; if the process is another "+j.name+", wait until it has ended")
}

// notLoaded says what is wrong with the files.
func notLoaded(err error) command.Check {
	message, next := fileProblem(err)
	return failed(registryState, reasonUnavailable, message, next)
}

// noState refuses a fresh node: an apply makes no state.
var noState = failed(registryState, reasonUnavailable, "this node has no key registry yet, so there is nothing to change",
	"start the provider once; if this node has served before, restore its state file and checkpoint first")

// reviewed holds the registry against the reviewed hash.
func (j job) reviewed(current *registry.Registry) command.Check {
	const again = "run the same command without --apply and --expected-state-hash, have that plan reviewed, and apply it"
	switch {
	case !registry.IsHash(j.expected):
		return failed(planReviewed, reasonHashMalformed, `the expected state hash is not "sha256:" and 64 lower-case hex digits`,
			"give the stateHash of the reviewed plan as it is printed")
	case current.Hash() != j.expected:
		return failed(planReviewed, reasonStale, fmt.Sprintf("the registry is not the one that was reviewed: it is at generation %d now, with the state hash %s",
			current.Generation(), current.Hash()), again)
	}
	return passed(planReviewed, fmt.Sprintf("the registry is the reviewed one, generation %d", current.Generation()))
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
