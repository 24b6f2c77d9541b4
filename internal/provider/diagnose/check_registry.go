package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/provider/store"
)

// Reason codes of the registry's checks that are not reasons of Status.
const (
	reasonOtherConfig    = "configuration_differs"
	reasonNoStateDir     = "state_directory_missing"
	reasonReadOnly       = "state_directory_read_only"
	reasonCheckpoint     = "checkpoint_conflict"
	reasonRegistryBroken = "registry_invalid"
	reasonLockFile       = "lock_file_unusable"
)

// againAfter is the pause before files that a running provider may be writing are
// looked at again.
const againAfter = 200 * time.Millisecond

// stateFiles are what the state file and its checkpoint hold.
type stateFiles struct {
	store.Inspection
	// err is about the state file when there is no Registry, and otherwise about
	// the checkpoint or what the two say of each other.
	err error
}

// lookAtState reads the files once for all checks, and again when a save seems
// to be under way.
func (e *exam) lookAtState(ctx context.Context) *stateFiles {
	if e.state == nil {
		found := inspect(e.config.State.Path)
		if found.Interrupted {
			pause(ctx, againAfter)
			found = inspect(e.config.State.Path)
		}
		e.state = &found
	}
	return e.state
}

func inspect(path string) stateFiles {
	found, err := store.Inspect(path)
	return stateFiles{found, err}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// checkState judges the state file by itself, and whose it is.
func checkState(ctx context.Context, e *exam) finding {
	s := e.lookAtState(ctx)
	switch {
	case s.Registry != nil:
		return lockedOut(e.adopt(s), s)
	case s.err != nil && !noDirectory(s.err):
		return stateFault(string(status.StateUnavailable), "the state file", s.err)
	}
	return lockedOut(e.firstStart(s.err), s)
}

// lockedOut is a finding about the files, or, where it is no failure, one about
// the lock file, for which the provider's next start refuses.
func lockedOut(f finding, s *stateFiles) finding {
	if s.LockErr == nil || f.result == command.Fail || f.result == command.Skip {
		return f
	}
	f = stateFault(reasonLockFile, "the lock file", s.LockErr)
	f.message += ": the provider's next start refuses it"
	return f
}

// trace is what this node shows of having served.
type trace int

const (
	noState     trace = iota // it never has, or lost both files
	hiddenState              // this user may not see
	someState
)

// trace looks for the files and not at what they hold.
func (e *exam) trace() trace {
	switch there, err := store.Exists(e.config.State.Path); {
	case there:
		return someState
	case err != nil:
		return hiddenState
	}
	return noState
}

// adopt takes the registry that the files hold.
func (e *exam) adopt(s *stateFiles) finding {
	e.registry, e.interrupted = s.Registry, s.Interrupted
	if s.Registry.Fingerprint() != e.config.Fingerprint() {
		return failed(reasonOtherConfig, "the state file belongs to another configuration: the fingerprints differ",
			"restore the configuration that this state was made with; compare what 'bao-kms-provider config' prints on all nodes")
	}
	r := s.Registry
	if e.readOnly() {
		return warning(reasonReadOnly, "the state directory cannot be written by "+userName(os.Geteuid())+", so no further generation can be saved", readOnlyAdvice)
	}
	return passed(fmt.Sprintf("generation %d, Transit version %d is active", r.Generation(), r.Active().TransitVersion))
}

// firstStart is a node without state: fine when the provider's first start would
// make one.
func (e *exam) firstStart(missing error) finding {
	if e.key == nil {
		return skippedFor(transitKey)
	}
	r, err := registry.Bootstrap(e.config.Scope(), e.config.Fingerprint(), e.metadata, e.now().Unix())
	switch refused, is := errors.AsType[*registry.Rejection](err); {
	case is && refused.Problem == registry.StateUnavailable:
		return failed(string(refused.Problem), refused.Message(), refused.NextStep+
			", first the checkpoint, then the state file, owned by the provider's user with mode 0600; do not start the provider before; "+
			"or, only if no node of this cluster was ever started, make another key, and run init again with its name and a new --key-lineage-id")
	case is:
		return failed(string(refused.Problem), refused.Message(), refused.NextStep)
	case err != nil:
		return failed(reasonRegistryBroken, "no registry can be made from this configuration and OpenBao's metadata", "check what answers at openbao.address, and the identity fields of the configuration")
	}
	e.registry, e.fresh = r, true
	if missing != nil {
		return warning(reasonNoStateDir, "there is no state yet, and no directory for it",
			"create the directory of state.path, owned by the provider's user with mode 0700, unless the service's unit makes it (StateDirectory)")
	}
	if e.readOnly() {
		return failed(reasonReadOnly, "there is no state yet, and its directory cannot be written by "+userName(os.Geteuid()), readOnlyAdvice)
	}
	return passed("there is no state yet: the provider's first start makes it")
}

const readOnlyAdvice = "see that the file system is mounted for writing, and that the directory of state.path has mode 0700"

// readOnly reports whether this user could save nothing.
func (e *exam) readOnly() bool {
	return unix.Faccessat(unix.AT_FDCWD, filepath.Dir(e.config.State.Path), unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil
}

func noDirectory(err error) bool {
	return errors.Is(err, fs.ErrNotExist)
}

// checkCheckpoint judges the checkpoint, and whether the state file follows from
// it.
func checkCheckpoint(ctx context.Context, e *exam) finding {
	s := e.lookAtState(ctx)
	switch {
	case s.CheckpointErr != nil:
		e.checkpointErr = s.CheckpointErr
		return stateFault(reasonCheckpoint, "the checkpoint", s.CheckpointErr)
	case s.Registry == nil && s.err != nil && !noDirectory(s.err):
		return skippedFor(registryState)
	case s.Registry == nil:
		return skipped("there is no state yet, and so no checkpoint")
	case s.err != nil:
		e.checkpointErr = s.err
		return stateFault(reasonCheckpoint, "the checkpoint", s.err)
	case s.Interrupted && s.Registry.Generation() == 1: // only a missing one is behind the first
		return passed("there is none yet: the provider's next start writes it")
	case s.Interrupted:
		return passed("it is one save behind the state file: one is under way, or was cut short and is completed by the provider's next start")
	}
	return finding{}
}

// stateFault tells what is wrong with a file, without its path.
func stateFault(reason, subject string, err error) finding {
	f, ok := errors.AsType[*store.Error](err)
	if !ok {
		return failed(reason, subject+" cannot be used: state.path is not a usable path", "set state.path to an absolute path in its simplest form")
	}
	message := f.Problem
	if !strings.HasPrefix(message, "the ") {
		message = subject + " " + message
	}
	if errno, ok := errors.AsType[unix.Errno](f.Err); ok && errno != unix.ENOENT {
		message += ": " + errno.Error()
	}
	return failed(reason, message, cmp.Or(f.Fix, "check the file system of the state directory"))
}

// checkMetadata holds the registry against OpenBao, as each probe does.
func checkMetadata(ctx context.Context, e *exam) finding {
	r := e.registry
	err := r.Validate(e.metadata, e.rules().RejectRollback)
	if err != nil && !e.fresh {
		// The key was read before the files. Where it was rotated and a running
		// provider has seen that between the two, the older answer looks like a key
		// that was rolled back, so the key is read once more before anything is said.
		k, failedWith := e.readKey(ctx)
		if failedWith != nil {
			return e.readAgainFailed(failedWith)
		}
		e.take(k)
		err = r.Validate(e.metadata, e.rules().RejectRollback)
	}
	if err != nil {
		refused, is := errors.AsType[*registry.Rejection](err)
		if !is {
			return failed(reasonRegistryBroken, "OpenBao's metadata cannot be held against the registry", status.ReportDefect)
		}
		return failed(string(refused.Problem), refused.Message(), refused.NextStep+orRetire(r, refused))
	}
	if r.EncryptionBlocked(e.metadata) {
		a := status.AdviceOn(status.EncryptionBlocked, "")
		return failed(string(status.EncryptionBlocked), fmt.Sprintf("%s, %d", a.Message, r.Active().TransitVersion), a.NextStep)
	}
	newest := r.Entries()[len(r.Entries())-1].TransitVersion
	if e.metadata.Latest > newest {
		return passed(fmt.Sprintf("OpenBao's latest version is %d; this node knows up to %d and takes in the rest at its provider's next metadata probe", e.metadata.Latest, newest))
	}
	return finding{}
}

// readAgainFailed is metadata that does not fit the registry and could not be read
// a second time, so that neither is certain.
func (e *exam) readAgainFailed(err error) finding {
	f := e.noKey(err)
	f.message = "the registry does not fit what OpenBao said first, which may have been older; read again: " + f.message
	return f
}

// orRetire is the other way out when OpenBao's minimum was raised past versions
// that only decrypt: the recovery of design/registry, retirement.
func orRetire(r *registry.Registry, refused *registry.Rejection) string {
	if refused.Problem != registry.VersionsBlocked {
		return ""
	}
	for _, e := range r.Entries() {
		if slices.Contains(refused.Versions, e.TransitVersion) && e.State != registry.Retired {
			return ""
		}
	}
	before := slices.Max(refused.Versions) + 1
	return fmt.Sprintf("; or, only if no data needs them any more, stop the provider and see 'bao-kms-provider retire-versions --before-version %d'", before)
}

// checkKeyIDs derives every key_id again: from the configuration and this node's
// records, and from what OpenBao says.
func checkKeyIDs(_ context.Context, e *exam) finding {
	scope := e.config.Scope()
	var own, other []int
	for _, entry := range e.registry.Entries() {
		v := entry.TransitVersion
		if scope.KeyID(v, entry.VersionCreatedAtUnix) != entry.KeyID {
			own = append(own, v)
		}
		created, listed := e.metadata.CreatedAtUnix[v]
		if e.key != nil && entry.State.Retained() && listed && scope.KeyID(v, created) != entry.KeyID {
			other = append(other, v)
		}
	}
	switch {
	case len(own) > 0:
		return failed(reasonKeyIDDiffers, "the configuration derives another key_id than the state file holds for Transit version "+versionNumbers(own),
			"restore the identity fields of the configuration: openbao.instanceId, openbao.namespace and transit.keyIdScope are the same on all nodes and never change")
	case len(other) > 0:
		return failed(reasonKeyIDDiffers, "OpenBao's creation time gives another key_id than the state file holds for Transit version "+versionNumbers(other),
			"restore the original key in OpenBao: it was replaced by another one")
	case e.key == nil:
		return passed("from this node's own records only: OpenBao's creation times were not read")
	}
	return finding{}
}

// reasonKeyIDDiffers is the code of a key_id that is not the derived one.
const reasonKeyIDDiffers = "key_id_differs"

// versionNumbers is "1, 2 and 3".
func versionNumbers(versions []int) string {
	words := make([]string, len(versions))
	for i, v := range versions {
		words[i] = strconv.Itoa(v)
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return words[0]
}
