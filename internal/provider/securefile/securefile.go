// Package securefile reads the files that the provider's safety rests on: its
// configuration, trust anchors and credentials. It checks a file's path, kind,
// owner and mode on the opened descriptor, so that nothing can be swapped
// between the check and the read.
//
// It never follows a link in the last element of a path, never reads an
// unbounded file, never writes or changes anything, and never puts a file's
// content into an error. Any package of the provider may use it; durable state
// has its own reader in store.
package securefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Rule says what a file must be.
type Rule struct {
	// What names the file in errors: "configuration file".
	What string
	// Forbid holds the permission bits that must not be set.
	Forbid fs.FileMode
	// MaxSize is the largest accepted size in bytes; it must be positive.
	MaxSize int64
}

// Permission bits that rules are made of.
const (
	// Private files hold a secret or decide where secrets go: no access for
	// others, and the group may only read.
	Private fs.FileMode = 0o027
	// PublicReadOnly files may be read by all and written by their owner only.
	PublicReadOnly fs.FileMode = 0o022
)

// Error says which file broke which rule, and what to do about it.
type Error struct {
	What, Path string
	// Problem is what is wrong; Fix is the next step.
	Problem, Fix string
	// Err is the system's error, if there was one.
	Err error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s %s: %s", e.What, e.Path, e.Problem)
	if e.Err != nil && !errors.Is(e.Err, fs.ErrNotExist) { // "does not exist" says it already
		s += ": " + reason(e.Err)
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.Err }

// reason drops the operation and path that a PathError repeats.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// Read opens path without following a link, checks the open file against rule
// and returns its content. The path must be absolute and clean; the file must
// be regular, owned by root or by the process's user, free of the forbidden
// permission bits and not larger than MaxSize. Every failure is an *Error.
func Read(path string, rule Rule) ([]byte, error) {
	if err := CheckPath(path, rule.What); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, openError(path, rule.What, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()

	if err := check(f, path, rule); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, rule.MaxSize+1))
	if err != nil {
		return nil, &Error{rule.What, path, "cannot be read", "", err}
	}
	if int64(len(b)) > rule.MaxSize {
		return nil, tooLarge(path, rule)
	}
	return b, nil
}

// CheckPath refuses a path that is empty, relative or not clean.
func CheckPath(path, what string) error {
	switch {
	case path == "":
		return &Error{what, `""`, "no path is given", "set an absolute path", nil}
	case !filepath.IsAbs(path):
		return &Error{what, path, "the path is relative", "give an absolute path", nil}
	case filepath.Clean(path) != path:
		return &Error{what, path, "the path is not in its simplest form", "write it as " + filepath.Clean(path), nil}
	}
	return nil
}

func openError(path, what string, err error) error {
	// With O_NOFOLLOW a link answers ELOOP; a socket answers ENXIO.
	switch {
	case errors.Is(err, unix.ELOOP):
		return &Error{what, path, "is a symbolic link", "give the path of the file itself", nil}
	case errors.Is(err, unix.ENOENT):
		return &Error{what, path, "does not exist", "create it or correct the path", unix.ENOENT}
	case errors.Is(err, unix.ENXIO):
		return &Error{what, path, "is not a regular file", "replace it with a regular file", nil}
	}
	return &Error{what, path, "cannot be opened", fmt.Sprintf("make it readable for user %d", os.Geteuid()), err}
}

func check(f *os.File, path string, rule Rule) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &Error{rule.What, path, "cannot be examined", "", err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &Error{rule.What, path, "is not a regular file", "replace it with a regular file", nil}
	}
	if uid := os.Geteuid(); st.Uid != 0 && int(st.Uid) != uid {
		return &Error{rule.What, path, fmt.Sprintf("is owned by user %d", st.Uid),
			"its owner must be " + owners(uid), nil}
	}
	mode := fs.FileMode(st.Mode & 0o777)
	if bad := mode & rule.Forbid; bad != 0 {
		return &Error{rule.What, path, fmt.Sprintf("has mode %04o", mode),
			fmt.Sprintf("run chmod %04o on it", mode&^rule.Forbid), nil}
	}
	if st.Size > rule.MaxSize {
		return tooLarge(path, rule)
	}
	return nil
}

// owners are those that a file may have.
func owners(uid int) string {
	if uid == 0 {
		return "root"
	}
	return fmt.Sprintf("root or user %d", uid)
}

func tooLarge(path string, rule Rule) error {
	return &Error{rule.What, path, fmt.Sprintf("is larger than %d bytes", rule.MaxSize), "check that it is the right file", nil}
}
