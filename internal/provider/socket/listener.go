package socket

import (
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Options say what socket to open.
type Options struct {
	// Path is absolute and clean, at most 107 bytes, in an existing directory
	// that is no link, belongs to root or the process's user and is not writable
	// by others.
	Path string
	// Mode is the socket's mode, within 0777.
	Mode fs.FileMode
	// GID is the socket's group. A negative number leaves the group as it is.
	GID int
	// OnStaleRemoved, if set, is called once when a socket that nobody served
	// was removed from Path.
	OnStaleRemoved func()
}

// Listener is a net.Listener on a Unix stream socket. Its methods are safe for
// concurrent use.
type Listener struct {
	net  *net.UnixListener
	dir  *directory
	name string
	id   inodeID

	closing  sync.Once
	closeErr error
}

// hooks let tests act at the moments that matter.
type hooks struct {
	beforeRemove  func()
	beforeChange  func(temporary string)
	beforePublish func(temporary string)
}

func (hooks) call(f func()) {
	if f != nil {
		f()
	}
}

func (hooks) callWith(f func(string), s string) {
	if f != nil {
		f(s)
	}
}

// Listen opens the socket. When it returns, the path exists with its final mode
// and group and connections are queued. Every failure is an *Error; nothing is
// left behind, and nothing that was at the path is changed, unless it was a
// socket that nobody serves.
func Listen(o Options) (*Listener, error) { return listen(o, hooks{}) }

func listen(o Options, h hooks) (*Listener, error) {
	if err := checkPath(o.Path); err != nil {
		return nil, err
	}
	dir, err := openDirectory(o.Path)
	if err != nil {
		return nil, err
	}
	l, err := listenIn(dir, filepath.Base(o.Path), o, h)
	if err != nil {
		dir.close()
		return nil, err
	}
	return l, nil
}

func listenIn(dir *directory, name string, o Options, h hooks) (*Listener, error) {
	if err := dir.lock(); err != nil {
		return nil, err
	}
	defer dir.unlock()
	removed, err := dir.clear(name, h)
	if err != nil {
		return nil, err
	}
	if removed && o.OnStaleRemoved != nil {
		o.OnStaleRemoved()
	}
	temporary := temporaryName()
	nl, err := bind(dir, temporary)
	if err != nil {
		return nil, err
	}
	l := &Listener{net: nl, dir: dir, name: name}
	if err := l.publish(temporary, o, h); err != nil {
		_ = dir.unlink(temporary)
		_ = nl.Close()
		return nil, err
	}
	return l, nil
}

// umask is one setting of the whole process.
var umask sync.Mutex

// bind creates a listening socket with mode 0600.
func bind(dir *directory, name string) (*net.UnixListener, error) {
	umask.Lock()
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: dir.name(name)})
	unix.Umask(old)
	umask.Unlock()
	if err != nil {
		return nil, &Error{dir.path, "cannot be created", "make the directory writable for " + owner() + " and see that /proc is mounted", err}
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

// publish gives the socket its group and mode and then its name.
func (l *Listener) publish(temporary string, o Options, h hooks) error {
	self, err := l.dir.openInode(temporary)
	if err != nil {
		return &Error{o.Path, "the new socket cannot be examined", "see whether something else changes its directory", err}
	}
	defer self.close()
	l.id = self.id
	h.callWith(h.beforeChange, temporary)

	// The group first: widening the mode first would let the old group in.
	if o.GID >= 0 {
		if err := unix.Fchownat(self.fd, "", -1, o.GID, unix.AT_EMPTY_PATH); err != nil {
			return &Error{o.Path, "the socket's group cannot be set", "make " + owner() + " a member of the socket's group or configure another", err}
		}
	}
	if err := unix.Chmod(self.path(), uint32(o.Mode.Perm())); err != nil {
		return &Error{o.Path, "the socket's mode cannot be set", "check the directory's file system", err}
	}
	h.callWith(h.beforePublish, temporary)
	switch err := l.dir.rename(temporary, l.name); {
	case errors.Is(err, unix.EEXIST):
		return &Error{o.Path, "something appeared at the path while the socket was being made", "see whether another provider is starting on it", nil}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return &Error{o.Path, "the file system cannot rename without replacing", "put the socket on a tmpfs such as /run", err}
	case err != nil:
		return &Error{o.Path, "the socket cannot be given its name", "check the directory's permissions", err}
	}
	return nil
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) { return l.net.Accept() }

// Addr is the configured path.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: l.dir.path} }

// Close removes the path if it is still this socket, and then stops listening.
// What else may be at the path is left alone. Only the first call does
// anything; all return its result.
func (l *Listener) Close() error {
	l.closing.Do(func() {
		// The open socket holds its inode, so the number cannot have been given
		// to another file before the next line.
		err := l.dir.removeExactly(l.name, l.id)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, errReplaced):
			err = nil
		case err != nil:
			err = &Error{l.dir.path, "cannot be removed", "remove it by hand", err}
		}
		l.closeErr = errors.Join(err, l.net.Close())
		l.dir.close()
	})
	return l.closeErr
}
