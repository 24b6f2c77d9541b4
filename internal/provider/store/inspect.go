package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/registry"
)

// Inspection is what the files hold at one moment.
type Inspection struct {
	// Registry is the state file's, also beside an error about the checkpoint or
	// about what the two say of each other. It is nil when the state file is of no
	// use, and on a fresh node, where there is no error either.
	Registry *registry.Registry
	// Interrupted: the state is the direct successor of what the checkpoint has
	// confirmed. Either a save is under way or one was cut short, which the next
	// start completes. Never set beside an error.
	Interrupted bool
	// StateErr is why there is no Registry: what is wrong with the state file, or
	// with the way to it, also where Load would stop at the checkpoint first. It is
	// set exactly when there is an error and no Registry.
	StateErr error
	// CheckpointErr is what is wrong with the checkpoint by itself, nil when it can
	// be read or does not exist.
	CheckpointErr error
	// LockErr is why the next start could not use the lock file: an *Error about its
	// kind, owner or mode. It is nil for one that is not there, whoever holds it,
	// and where the directory is of no use. No other field depends on it.
	LockErr error
}

// Exists reports whether there is a state file or a checkpoint at all, whatever
// they hold and whose they are. Its error says that this process may not see.
func Exists(path string) (bool, error) {
	for _, p := range []string{path, path + checkpointSuffix} {
		switch _, err := os.Lstat(p); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return false, &Error{p, "cannot be looked for", "run the command as the user that owns the state", err}
		}
	}
	return false, nil
}

// inspections is how often the files are read again because a running provider
// has saved meanwhile. It saves once a probe at most, so two do; the rest is for
// a machine that does not let us run.
const inspections = 1000

// Inspect reads the files without the lock and changes nothing: it may be called
// while a provider runs, and on a read-only file system. Its error is the one
// that Load would return, but for the configuration's fingerprint, which is the
// caller's to compare; an interrupted save is no error and is not completed.
func Inspect(path string) (Inspection, error) {
	d, err := inspected(path)
	if err != nil {
		return Inspection{StateErr: err}, err
	}
	defer d.Close()
	s := &Store{path: path, name: filepath.Base(path)}
	found, err := s.inspect(d)
	found.LockErr = lookAtLock(d, path+lockSuffix, s.name+lockSuffix)
	return found, err
}

func inspected(path string) (*osDirectory, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	d, err := openDirectory(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return d.(*osDirectory), nil
}

// inspect takes the state and the checkpoint of one moment. A save replaces the
// state, then the checkpoint, and no generation ever comes back: with the same
// checkpoint before and after, at most one save came between, and the state that
// was read is that checkpoint's own or its successor.
func (s *Store) inspect(d directory) (Inspection, error) {
	cp := s.readCheckpoint(d)
	var state content
	for range inspections {
		state = s.readState(d)
		again := s.readCheckpoint(d)
		// Absent and empty are not the same.
		same := (again.doc == nil) == (cp.doc == nil) && bytes.Equal(again.doc, cp.doc)
		cp = again
		if same {
			break
		}
	}
	both := s.decode(state, cp)
	found := Inspection{Registry: both.state, StateErr: both.stateErr, CheckpointErr: both.checkpointErr}
	if err := both.fault(); err != nil || both.state == nil {
		return found, err
	}
	complete, err := s.agree(both.state, both.checkpoint)
	found.Interrupted = err == nil && !complete
	return found, err
}
