package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// directory is every system call that the store makes on its files. Names are
// relative to it and are never followed when they are links.
type directory interface {
	// ID identifies the directory itself, whatever its name is by now.
	ID() dirID
	// Open opens a file for reading.
	Open(name string) (file, error)
	// Create makes a new file with mode 0600 and fails when the name is taken.
	Create(name string) (file, error)
	Rename(oldName, newName string) error
	Remove(name string) error
	// Sync makes renames in the directory durable.
	Sync() error
	Close() error
}

// file is an open file of a directory.
type file interface {
	Stat() (fileInfo, error)
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

type dirID struct{ dev, ino uint64 }

type fileInfo struct {
	regular bool
	owner   int
	mode    fs.FileMode
	size    int64
}

// openDirectory opens the state directory without following a link in its last
// element and refuses one that others could write to.
func openDirectory(path string) (directory, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, &Error{path, "the state directory does not exist", "create it with mode 0700, owned by the user that the provider runs as; this process runs as " + userName(os.Geteuid()), err}
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, &Error{path, "the state directory is a link or not a directory", "put the directory itself there, with the files that it holds", err}
	case err != nil:
		return nil, shut(path, err)
	}
	d := &osDirectory{fd: fd}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		d.Close()
		return nil, &Error{path, "the state directory cannot be examined", "", err}
	}
	d.id = dirID{uint64(st.Dev), st.Ino}
	if int(st.Uid) != os.Geteuid() {
		d.Close()
		return nil, wrongUser(path, int(st.Uid), nil)
	}
	if mode := st.Mode & 0o777; mode&0o022 != 0 {
		d.Close()
		return nil, &Error{path, fmt.Sprintf("the state directory has mode %04o", mode), fmt.Sprintf("run chmod %04o on it", mode&^0o022), nil}
	}
	return d, nil
}

type osDirectory struct {
	fd int
	id dirID
}

func (d *osDirectory) ID() dirID { return d.id }

func (d *osDirectory) Open(name string) (file, error) {
	return d.openFile(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

func (d *osDirectory) Create(name string) (file, error) {
	return d.openFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
}

func (d *osDirectory) openFile(name string, flags int, mode uint32) (file, error) {
	fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return osFile{os.NewFile(uintptr(fd), name)}, nil
}

func (d *osDirectory) Rename(oldName, newName string) error {
	return unix.Renameat(d.fd, oldName, d.fd, newName)
}

func (d *osDirectory) Remove(name string) error { return unix.Unlinkat(d.fd, name, 0) }
func (d *osDirectory) Sync() error              { return unix.Fsync(d.fd) }
func (d *osDirectory) Close() error             { return unix.Close(d.fd) }

type osFile struct{ *os.File }

func (f osFile) Stat() (fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileInfo{}, err
	}
	return infoOf(&st), nil
}

func infoOf(st *unix.Stat_t) fileInfo {
	return fileInfo{
		regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
		owner:   int(st.Uid),
		mode:    fs.FileMode(st.Mode & 0o7777),
		size:    st.Size,
	}
}

// cause names a system error without the path that a PathError repeats.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
