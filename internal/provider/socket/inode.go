package socket

import (
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// An inode is an open handle on what a name stood for when it was opened. As
// long as it is open the kernel does not give its number to another file, so
// comparing device and number is exact.
type inode struct {
	fd   int
	id   inodeID
	mode uint32
	gid  uint32
}

type inodeID struct{ dev, ino uint64 }

// openInode opens what name stands for, itself and not what a link leads to. It
// needs no permission on it and does not connect to it.
func (d *directory) openInode(name string) (*inode, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &inode{fd: fd, id: idOf(&st), mode: st.Mode, gid: st.Gid}, nil
}

// idOf widens both numbers: their types differ between architectures.
func idOf(st *unix.Stat_t) inodeID { return inodeID{uint64(st.Dev), uint64(st.Ino)} }

func (i *inode) close() { _ = unix.Close(i.fd) }

func (i *inode) isSocket() bool { return i.mode&unix.S_IFMT == unix.S_IFSOCK }

// path leads to exactly this inode, under whatever name it has now.
func (i *inode) path() string { return fmt.Sprintf("/proc/self/fd/%d", i.fd) }

// idOfName is the identity of what name stands for now.
func (d *directory) idOfName(name string) (inodeID, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return inodeID{}, err
	}
	return idOf(&st), nil
}

// errReplaced reports that a name no longer stands for the inode in question.
var errReplaced = errors.New("something else is at the path now")

// removeExactly removes name if it stands for want, which must be held open by
// the caller. It returns errReplaced, with the other thing left in its place,
// when it does not, and fs.ErrNotExist when the name is gone.
//
// A look followed by an unlink could still remove something that took the name
// in between. So the name is first moved aside, and what was moved is compared.
func (d *directory) removeExactly(name string, want inodeID) error {
	switch id, err := d.idOfName(name); {
	case err != nil:
		return err
	case id != want:
		return errReplaced
	}
	if d.looked != nil {
		d.looked()
	}
	aside := temporaryName()
	if err := d.rename(name, aside); err != nil {
		return err
	}
	id, err := d.idOfName(aside)
	if err == nil && id == want {
		return d.unlink(aside)
	}
	if err := d.rename(aside, name); err != nil {
		return fmt.Errorf("something else took the path twice, and one of the two is now called %s: %w", aside, err)
	}
	return errReplaced
}

// temporaryName is a name that nobody can guess, short enough for bind through
// the open directory.
func temporaryName() string { return ".socket-" + rand.Text() }
