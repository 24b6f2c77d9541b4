package config

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/securefile"
)

// Examination is what a configuration file is like: its safety and its content
// judged apart, so that a bad mode does not hide a bad field.
type Examination struct {
	// Config is nil when the content is refused or could not be read.
	Config *Config
	// Refused says why there is no Config; nil with one.
	Refused *Error
	// Unsafe says what Load would refuse the file for before it looks at its
	// content; nil for a file that it would read.
	Unsafe *securefile.Error
}

// Examine judges the file at path as Load does, but reads it also where Load
// would not: the file of another user, one with a wide mode, one behind a link.
// It is for finding out what is wrong; what runs uses Load.
func Examine(path string, opts ...Option) Examination {
	data, err := securefile.Read(path, fileRule)
	var x Examination
	if err != nil {
		x.Unsafe, _ = errors.AsType[*securefile.Error](err)
		if data, err = readAnyway(path); err != nil {
			x.Refused = &Error{File: path, Err: err}
			return x
		}
	}
	if x.Config, err = parse(data, newOptions(opts)); err != nil {
		x.Refused, _ = errors.AsType[*Error](err)
		x.Refused.File = path
	}
	return x
}

// readAnyway reads a regular file without asking whose it is. Its errors are
// *securefile.Errors.
func readAnyway(path string) ([]byte, error) {
	if err := securefile.CheckPath(path, fileRule.What); err != nil {
		return nil, err
	}
	bad := func(problem, fix string, err error) error {
		return &securefile.Error{What: fileRule.What, Path: path, Problem: problem, Fix: fix, Err: err}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, bad("does not exist", "create it or correct the path", unix.ENOENT)
	case errors.Is(err, unix.ENXIO):
		return nil, bad("is not a regular file", "replace it with a regular file", nil)
	case err != nil:
		return nil, bad("cannot be opened", "make it readable for the provider's user", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, bad("cannot be examined", "check its file system", err)
	case !info.Mode().IsRegular():
		return nil, bad("is not a regular file", "replace it with a regular file", nil)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	switch {
	case err != nil:
		return nil, bad("cannot be read", "check its file system", err)
	case len(data) > MaxSize:
		return nil, bad("is larger than a configuration can be", "check that it is the right file", nil)
	}
	return data, nil
}
