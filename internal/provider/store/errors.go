package store

import "fmt"

// Error says which file or directory is wrong, how, and what to do next.
type Error struct {
	// Path is the file concerned.
	Path string
	// Problem is what was found, with what was expected where that helps.
	Problem string
	// Fix is the next step.
	Fix string
	// Err is the system's error, if there was one.
	Err error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("key registry: %s: %s", e.Path, e.Problem)
	if e.Err != nil {
		s += ": " + cause(e.Err)
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.Err }

// ConflictError says that a file no longer holds what this process confirmed.
type ConflictError struct{ Found *Error }

func (e *ConflictError) Error() string { return e.Found.Error() }

// Unwrap returns the *Error that names the file.
func (e *ConflictError) Unwrap() error { return e.Found }

// LockedError says that another process is the writer of this state.
type LockedError struct {
	Path string
	// PID is the holder's process id as the holder sees it, 0 when the lock file
	// does not tell. A holder in a container may be 1.
	PID int
}

// Holder names the holder, as far as it is known.
func (e *LockedError) Holder() string {
	switch e.PID {
	case 0:
		return "another process"
	case 1: // on the node this is somebody else
		return "a process in a container"
	}
	return fmt.Sprintf("process %d", e.PID)
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("key registry: %s: %s holds the lock; stop it first", e.Path, e.Holder())
}

// SaveError says at which step a save failed. The files may hold the document
// that was saved before, the attempted one, or one of each.
type SaveError struct {
	Path string
	// Step is what was being done, such as "sync the temporary file".
	Step string
	Err  error
}

func (e *SaveError) Error() string {
	return fmt.Sprintf("key registry: %s: not saved: %s: %s; check the file system's space, mode and health", e.Path, e.Step, cause(e.Err))
}

// Unwrap returns the system's error.
func (e *SaveError) Unwrap() error { return e.Err }
