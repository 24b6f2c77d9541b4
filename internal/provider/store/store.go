package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// Suffixes of the files beside the state file.
const (
	checkpointSuffix = ".checkpoint"
	lockSuffix       = ".lock"
	temporarySuffix  = ".tmp"
)

// restoreBoth is the next step where a file by itself is of no use.
const restoreBoth = "restore the state file and the checkpoint from one backup"

// Store is the exclusive writer of one registry's files. It is not safe for
// concurrent use: it has one caller, the one writer.
type Store struct {
	path string // of the state file
	name string // its base name
	open func(path string) (directory, error)
	id   dirID // the directory that was locked
	lock *os.File

	confirmed *registry.Registry // the last document known to be durable, nil before the first
	attempt   *registry.Registry // a save that failed and may have changed a file
	conflict  *ConflictError     // found while completing an attempt; stays
}

// Open takes the lock on the state at path and removes what an interrupted save
// may have left under a temporary name. It returns a *LockedError when another
// process holds the lock, and an *Error for an unsafe directory or lock file.
// The caller must Close the Store.
func Open(path string) (*Store, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	d, err := openDirectory(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	s := &Store{path: path, name: filepath.Base(path), id: d.ID()}
	s.open = s.openLocked
	if s.lock, err = acquire(d.(*osDirectory), path+lockSuffix, s.name+lockSuffix); err != nil {
		return nil, err
	}
	for _, name := range []string{s.name, s.name + checkpointSuffix} {
		// What cannot be removed from a read-only file system does no harm there,
		// and every save removes it again before it begins.
		if err := removeTemporary(d, name); err != nil && !errors.Is(err, unix.EROFS) {
			s.lock.Close()
			return nil, &Error{s.file(name + temporarySuffix), "a leftover temporary file cannot be removed", "remove it", err}
		}
	}
	return s, nil
}

func checkPath(path string) error {
	if err := securefile.CheckPath(path, "state file"); err != nil {
		return err
	}
	if path == filepath.Dir(path) {
		return &Error{path, "is a directory", "set state.path to a file", nil}
	}
	return nil
}

// Close releases the lock. The files stay.
func (s *Store) Close() error { return s.lock.Close() }

// file is the full path of a name in the state directory.
func (s *Store) file(name string) string { return filepath.Join(filepath.Dir(s.path), name) }

// openLocked opens the state directory and makes sure that the lock file in it
// is the one that is locked: with another file under its name, a second writer
// could have started.
func (s *Store) openLocked(path string) (directory, error) {
	d, err := openDirectory(path)
	if err != nil {
		return nil, err
	}
	if d.ID() == s.id && !isNamed(s.lock, d.(*osDirectory).fd, s.name+lockSuffix) {
		d.Close()
		return nil, &ConflictError{&Error{s.path + lockSuffix, "the lock file was removed or replaced while it was locked",
			"make sure that no other process writes this state, restart the provider, and never delete the lock file", nil}}
	}
	return d, nil
}

// directory opens the state directory and makes sure that it is still the one
// that was locked.
func (s *Store) directory() (directory, error) {
	d, err := s.open(filepath.Dir(s.path))
	if err != nil {
		return nil, err
	}
	if d.ID() != s.id {
		d.Close()
		return nil, &ConflictError{&Error{filepath.Dir(s.path), "the state directory was replaced while the provider runs",
			"put the original directory back, or check the files in the new one; then restart the provider", nil}}
	}
	return d, nil
}

// Load reads the registry that the files hold, for a configuration with this
// fingerprint. It returns nil when there is no state at all, which is a fresh
// node, and completes a save that was interrupted; when that fails it returns a
// *SaveError and may be called again. Every other disagreement is an *Error, and
// the files stay as they are (design: registry, files).
//
// Load is for the start. Once a registry was loaded or a save begun, changed
// files are a conflict and not a new truth, so it refuses.
func (s *Store) Load(fingerprint string) (*registry.Registry, error) {
	if s.confirmed != nil || s.attempt != nil {
		return nil, &Error{s.path, "a registry was already loaded or saved", "report this as a defect", nil}
	}
	d, err := s.directory()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	both := s.decode(s.readState(d), s.readCheckpoint(d))
	if err := both.fault(); err != nil || both.state == nil {
		return nil, err
	}
	state := both.state
	if state.Fingerprint() != fingerprint {
		return nil, &Error{s.path, fmt.Sprintf("belongs to another configuration: its fingerprint is %s, the configuration's is %s", state.Fingerprint(), fingerprint),
			"restore the configuration that this state was made with; compare the output of 'config' across nodes", nil}
	}
	complete, err := s.agree(state, both.checkpoint)
	if err != nil {
		return nil, err
	}
	if !complete {
		if err := s.write(d, state); err != nil {
			return nil, err
		}
	} else if err := d.Sync(); err != nil {
		// The save that made the files equal may have failed at its last barrier.
		return nil, &SaveError{filepath.Dir(s.path), "sync the directory", err}
	}
	s.confirmed = state
	return state, nil
}

// content is what reading a file gave: nil without an error when it does not
// exist.
type content struct {
	doc []byte
	err error
}

func (s *Store) readState(d directory) content {
	doc, err := s.read(d, s.name, registry.MaxSize)
	return content{doc, err}
}

func (s *Store) readCheckpoint(d directory) content {
	doc, err := s.read(d, s.name+checkpointSuffix, maxCheckpointSize)
	return content{doc, err}
}

// files are the two files, each judged by itself.
type files struct {
	state                   *registry.Registry // nil without one
	checkpoint              *checkpoint        // nil without one
	stateErr, checkpointErr error
}

// fault is what Load stops at, nil when each file can be taken for itself.
func (f files) fault() error {
	if f.checkpointErr != nil {
		return f.checkpointErr
	}
	return f.stateErr
}

func (s *Store) decode(state, cp content) files {
	f := files{stateErr: state.err, checkpointErr: cp.err}
	if cp.doc != nil {
		f.checkpoint, f.checkpointErr = s.decodeCheckpoint(cp.doc)
	}
	switch {
	case state.doc != nil:
		f.state, f.stateErr = s.decodeState(state.doc)
	case state.err == nil && f.checkpoint != nil:
		f.stateErr = &Error{s.path, fmt.Sprintf("the state file is missing, but its checkpoint names generation %d", f.checkpoint.Generation),
			"restore the state file of that generation from a backup", nil}
	case state.err == nil && f.checkpointErr != nil:
		f.stateErr = &Error{s.path, "the state file is missing, but its checkpoint is there", restoreBoth, nil}
	}
	return f
}

func (s *Store) decodeState(doc []byte) (*registry.Registry, error) {
	state, err := registry.Decode(doc)
	if err != nil {
		return nil, &Error{s.path, "the state file " + err.Error(), restoreBoth, nil}
	}
	return state, nil
}

func (s *Store) decodeCheckpoint(doc []byte) (*checkpoint, error) {
	cp, err := decodeCheckpoint(doc)
	if err != nil {
		return nil, &Error{s.path + checkpointSuffix, "the checkpoint " + err.Error(), restoreBoth, nil}
	}
	return &cp, nil
}

// agree applies the load rules to a state and its checkpoint. complete is false
// when the state is an interrupted save that has yet to be completed.
func (s *Store) agree(state *registry.Registry, cp *checkpoint) (complete bool, err error) {
	fail := func(problem, fix string) error { return &Error{s.path, problem, fix, nil} }
	gen := state.Generation()
	switch {
	case cp == nil && gen == 1:
		return false, nil
	case cp == nil:
		return false, fail(fmt.Sprintf("the checkpoint is missing, and the state file is at generation %d", gen),
			"restore the checkpoint that belongs to it from a backup")
	case gen == cp.Generation && state.Hash() == cp.Hash:
		return true, nil
	case state.Succeeds(cp.Generation, cp.Hash):
		return false, nil
	case gen < cp.Generation:
		return false, fail(fmt.Sprintf("the state file is at generation %d, but the checkpoint has confirmed generation %d: the state file is an older copy", gen, cp.Generation),
			"restore the state file of the newest generation")
	case gen-1 > cp.Generation:
		return false, fail(fmt.Sprintf("the state file is at generation %d, but the checkpoint is at %d: the checkpoint is an older copy", gen, cp.Generation),
			"restore the checkpoint that belongs to the state file")
	}
	return false, fail(fmt.Sprintf("the state file at generation %d does not follow from the checkpoint at generation %d: the files come from two histories", gen, cp.Generation),
		"restore the state file and the checkpoint from one backup of this node")
}

// read returns a file's content, nil when the file does not exist.
func (s *Store) read(d directory, name string, limit int64) ([]byte, error) {
	path := s.file(name)
	f, err := d.Open(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.ELOOP):
		return nil, &Error{path, "is a symbolic link", "replace it with the file itself", nil}
	case err != nil:
		return nil, &Error{path, "cannot be opened", "chown it to " + userName(os.Geteuid()) + ", as which the provider runs, with mode 0600", err}
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, &Error{path, "cannot be examined", "", err}
	case !info.regular:
		return nil, &Error{path, "is not a regular file", "restore the file from a backup", nil}
	case info.owner != os.Geteuid():
		return nil, &Error{path, fmt.Sprintf("is owned by user %d", info.owner), "chown it to " + userName(os.Geteuid()) + ", as which the provider runs, after checking who had it", nil}
	case info.mode&^0o600 != 0:
		return nil, &Error{path, fmt.Sprintf("has mode %04o", info.mode), "run chmod 0600 on it; doctor then checks what it holds", nil}
	case info.size > limit:
		return nil, &Error{path, fmt.Sprintf("is larger than %d bytes", limit), "restore the file from a backup", nil}
	}
	doc, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, &Error{path, "cannot be read", "check the file system's health", err}
	}
	return doc, nil
}
