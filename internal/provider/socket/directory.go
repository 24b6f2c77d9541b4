package socket

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPathLen is the longest path that fits sockaddr_un with its final NUL.
const maxPathLen = 107

// checkPath refuses what cannot be the path of a socket, before anything is
// touched.
func checkPath(path string) error {
	bad := func(problem, fix string) error { return &Error{Path: path, Problem: problem, Fix: fix} }
	switch {
	case path == "":
		return &Error{Path: `""`, Problem: "no path is given", Fix: "set an absolute path"}
	case strings.HasPrefix(path, "@"):
		return bad("abstract sockets have no owner and no mode", "give the absolute path of a file")
	case strings.ContainsRune(path, 0):
		return &Error{Path: fmt.Sprintf("%q", path), Problem: "the path contains a NUL byte", Fix: "correct the path"}
	case !filepath.IsAbs(path):
		return bad("the path is relative", "give an absolute path")
	case filepath.Clean(path) != path:
		return bad("the path is not in its simplest form", "write it as "+filepath.Clean(path))
	case path == "/":
		return bad("the path is a directory", "give the path of a file inside a directory")
	case len(path) > maxPathLen:
		return bad(fmt.Sprintf("the path has %d bytes, the system allows %d", len(path), maxPathLen), "choose a shorter path")
	}
	return nil
}

// A directory is an open directory that passed the checks. Names in its methods
// are single path elements.
type directory struct {
	fd   int
	path string // of the socket, for errors

	looked func() // lets tests act between a look and the removal; else nil
}

// openDirectory opens the directory of the socket at path without following a
// link in its last element, and checks the open directory.
func openDirectory(path string) (*directory, error) {
	dir := filepath.Dir(path)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, directoryError(path, dir, err)
	}
	d := &directory{fd: fd, path: path}
	if err := d.check(dir, os.Geteuid()); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func directoryError(path, dir string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return &Error{path, "the directory " + dir + " does not exist", "create it, owned by " + owner() + " with mode 0750", ErrNoDirectory}
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		// With O_NOFOLLOW a link answers one of the two, depending on the system.
		if isLink(dir) {
			return &Error{path, "the directory " + dir + " is a symbolic link", "give the path through the directory itself", nil}
		}
		return &Error{path, "the parent " + dir + " is not a directory", "correct the path", nil}
	}
	return &Error{path, "the directory " + dir + " cannot be opened", "make it accessible to " + owner(), err}
}

func isLink(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// check judges the open directory for a process of user euid.
func (d *directory) check(dir string, euid int) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return &Error{d.path, "the directory " + dir + " cannot be examined", "check its file system", err}
	}
	if st.Uid != 0 && int(st.Uid) != euid {
		return &Error{d.path, fmt.Sprintf("the directory %s is owned by user %d", dir, st.Uid), "its owner must be " + owners(euid), nil}
	}
	// The sticky bit is no excuse: it does not stop others from creating the
	// path first.
	if st.Mode&unix.S_IWOTH != 0 {
		return &Error{d.path, fmt.Sprintf("the directory %s is writable by everyone (mode %04o)", dir, st.Mode&0o7777), "run chmod o-w on it", nil}
	}
	return nil
}

// lock keeps other starts in the same directory out until unlock, so that no two
// of them judge and remove the same stale socket. It never waits.
func (d *directory) lock() error {
	switch err := unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return &Error{d.path, "another provider is starting in the same directory", "see whether two are configured with this path", nil}
	case err != nil:
		return &Error{d.path, "its directory cannot be locked", "put the socket on a tmpfs such as /run", err}
	}
	return nil
}

func (d *directory) unlock() { _ = unix.Flock(d.fd, unix.LOCK_UN) }

// owners are those that the directory may have.
func owners(euid int) string {
	if euid == 0 {
		return "root"
	}
	return fmt.Sprintf("root or user %d", euid)
}

func owner() string { return fmt.Sprintf("user %d", os.Geteuid()) }

func (d *directory) close() { _ = unix.Close(d.fd) }

// name returns a path for name that stays in the open directory whatever
// happens to the directory's own path. It is also short, so that a temporary
// name never exceeds what sockaddr_un holds.
func (d *directory) name(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.fd, name)
}

// rename moves a name without ever replacing another.
func (d *directory) rename(from, to string) error {
	return unix.Renameat2(d.fd, from, d.fd, to, unix.RENAME_NOREPLACE)
}

func (d *directory) unlink(name string) error { return unix.Unlinkat(d.fd, name, 0) }
