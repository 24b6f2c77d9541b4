package store

import (
	"path/filepath"

	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// Inspection is what the files hold at one moment.
type Inspection struct {
	// Registry is the state file's; nil when there is no state at all.
	Registry *registry.Registry
	// Interrupted: the state is the direct successor of what the checkpoint has
	// confirmed. Either a save is under way or one was cut short, which the next
	// start completes.
	Interrupted bool
}

// inspections is how often the files are read again while they contradict each
// other: a running provider may be saving.
const inspections = 5

// Inspect reads the files without the lock and changes nothing: it may be called
// while a provider runs. It judges them as Load does, but for the configuration's
// fingerprint, which is the caller's to compare, and completes nothing. When only
// the checkpoint is at fault, the registry is returned beside the *Error, whose
// Path is the checkpoint's.
func Inspect(path string) (Inspection, error) {
	if err := securefile.CheckPath(path, "state file"); err != nil {
		return Inspection{}, err
	}
	d, err := openDirectory(filepath.Dir(path))
	if err != nil {
		return Inspection{}, err
	}
	defer d.Close()
	s := &Store{path: path, name: filepath.Base(path)}
	var found Inspection
	for range inspections {
		if found, err = s.inspect(d); err == nil {
			break
		}
	}
	return found, err
}

// inspect reads the checkpoint first: a save that comes between the two reads
// then looks like one under way.
func (s *Store) inspect(d directory) (Inspection, error) {
	cp, cpErr := s.readCheckpoint(d)
	state, err := s.readState(d)
	switch {
	case err != nil:
		return Inspection{}, err
	case state == nil && cpErr == nil && cp == nil:
		return Inspection{}, nil
	case state == nil && cpErr == nil:
		return Inspection{}, s.missingState(cp)
	case cpErr != nil:
		return Inspection{Registry: state}, cpErr
	}
	complete, err := s.agree(state, cp)
	return Inspection{Registry: state, Interrupted: err == nil && !complete}, err
}
