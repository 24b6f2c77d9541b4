package socket

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNoDirectory is wrapped by the error about a directory that does not exist.
var ErrNoDirectory = errors.New("the directory does not exist")

// Error says which socket path cannot be used, why, and what to do next.
type Error struct {
	Path string
	// Problem is what is wrong; Fix is the next step.
	Problem, Fix string
	// Err is the system's error, if there was one.
	Err error
}

func (e *Error) Error() string {
	s := "socket " + e.Path + ": " + e.Problem
	if e.Err != nil && !errors.Is(e.Err, ErrNoDirectory) { // the problem says it already
		s += ": " + reason(e.Err)
	}
	return s + "; " + e.Fix
}

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.Err }

// reason drops what the standard library puts around a system error: it
// repeats paths, and here they are names under /proc that tell nobody anything.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	if s, ok := errors.AsType[*os.SyscallError](err); ok {
		return s.Err.Error()
	}
	return err.Error()
}
