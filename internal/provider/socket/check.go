package socket

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// State is what is at the path of a socket.
type State int

// The states.
const (
	// Absent: nothing is there; Listen would make the socket.
	Absent State = iota
	// Stale: a socket that nobody serves, which Listen would remove.
	Stale
	// Served: a process serves it.
	Served
)

// Found is what Check saw.
type Found struct {
	State State
	// Mode and GID are those of the socket; zero for an absent one.
	Mode fs.FileMode
	GID  int
}

// Check judges a path by the rules of Listen, for a process of this user, and
// changes nothing: it takes no lock, makes nothing and removes nothing. Other
// than for Listen, a served socket is no error: it is what a running provider
// looks like. A process that serves it sees one connection that ends at once.
// Every failure is an *Error.
func Check(path string) (Found, error) {
	if err := checkPath(path); err != nil {
		return Found{}, err
	}
	d, err := openDirectory(path)
	if err != nil {
		return Found{}, err
	}
	defer d.close()
	found, err := d.look(filepath.Base(path))
	if err != nil || found.State == Served {
		return found, err
	}
	if err := unix.Faccessat(d.fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return found, &Error{path, "its directory cannot be written", "make the directory writable for " + owner(), err}
	}
	return found, nil
}

// look says what is at the name.
func (d *directory) look(name string) (Found, error) {
	i, err := d.openInode(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return Found{}, nil
	case err != nil:
		return Found{}, &Error{d.path, "cannot be examined", "check the directory's permissions", err}
	}
	defer i.close()
	if !i.isSocket() {
		return Found{}, &Error{d.path, "is " + kind(i.mode) + ", not a socket", "move it away or choose another path", nil}
	}
	found := Found{State: Stale, Mode: fs.FileMode(i.mode).Perm(), GID: int(i.gid)}
	served, err := d.served(i)
	switch {
	case errors.Is(err, unix.EACCES):
		return found, &Error{d.path, owner() + " may not connect to the socket that is there", "do this as the user that made it, or as a member of its group", err}
	case err != nil:
		return found, err
	case served:
		found.State = Served
	}
	return found, nil
}
