package socket

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// clear makes the way free for a new socket: nothing at the name is fine, a
// socket that nobody serves is removed, everything else is refused and left
// alone. It reports whether it removed one.
func (d *directory) clear(name string, h hooks) (removed bool, err error) {
	found, err := d.openInode(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, &Error{d.path, "cannot be examined", "check the directory's permissions", err}
	}
	defer found.close()

	if !found.isSocket() {
		return false, &Error{d.path, "is " + kind(found.mode) + ", not a socket", "move it away or choose another path; it was left as it is", nil}
	}
	if err := d.refuseLive(found); err != nil {
		return false, err
	}
	h.call(h.beforeRemove)
	switch err := d.removeExactly(name, found.id); {
	case errors.Is(err, unix.ENOENT):
		return false, nil // gone by itself
	case errors.Is(err, errReplaced):
		return false, &Error{d.path, "was replaced while it was being checked", "see whether another provider is starting on it", err}
	case err != nil:
		return false, &Error{d.path, "is a socket that nobody serves and cannot be removed", "remove it by hand", err}
	}
	return true, nil
}

// refuseLive is an error unless nobody serves exactly the inode that was found.
func (d *directory) refuseLive(found *inode) error {
	served, err := d.served(found)
	if err == nil && served {
		return &Error{d.path, "another process serves it", "stop that process (ss -xlp shows it) or choose another path", nil}
	}
	return err
}

// served dials exactly the inode that was found. Only a refused connection
// proves that nobody serves it; every doubt is an error.
func (d *directory) served(found *inode) (bool, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false, &Error{d.path, "a socket exists here and cannot be dialled", "see that the process may open more files", err}
	}
	defer unix.Close(fd)

	switch err := connect(fd, found.path()); {
	case errors.Is(err, unix.ECONNREFUSED):
		return false, nil
	case err == nil, errors.Is(err, unix.EAGAIN): // EAGAIN: its backlog is full
		return true, nil
	default:
		return false, &Error{d.path, "a socket exists here and does not tell whether it is served", "find its owner (ss -xlp) or remove it by hand", err}
	}
}

// connect never blocks: on a non-blocking Unix socket the answer is immediate.
func connect(fd int, path string) error {
	for {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a named pipe"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	}
	return fmt.Sprintf("of unknown kind %#o", mode&unix.S_IFMT)
}
