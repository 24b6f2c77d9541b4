package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// acquire takes the exclusive advisory lock on the lock file in directory dir.
// The kernel releases it when the process ends, however it ends; the file stays.
func acquire(dir *osDirectory, path, name string) (*os.File, error) {
	fd, writable, err := openLockFile(dir, name)
	if err != nil {
		fix := "it must be a regular file that the process may write"
		if errors.Is(err, unix.EROFS) {
			fix = "make the file system of the state directory writable again"
		}
		return nil, &Error{path, "the lock file cannot be opened", fix, err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := checkLockFile(f, path); err != nil {
		f.Close()
		return nil, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Path: path, PID: readPID(f)}
		}
		return nil, &Error{path, "the lock cannot be taken", "the file system must support advisory locks", err}
	}
	// A lock on a file that somebody replaced meanwhile would keep nobody out.
	if !isNamed(f, dir.fd, name) {
		f.Close()
		return nil, &Error{path, "the lock file was replaced while it was being locked", "start again, and never delete the lock file", nil}
	}
	if !writable {
		return f, nil // the file goes on naming an earlier holder
	}
	if err := writePID(f); err != nil {
		f.Close()
		return nil, &Error{path, "the lock file cannot be written", "check the file system's space and mode", err}
	}
	return f, nil
}

// openLockFile opens the lock file, or makes it. On a file system that has turned
// read-only an existing one will do: it can be locked all the same, and a node
// that restarts then must still decrypt what it knows.
func openLockFile(dir *osDirectory, name string) (fd int, writable bool, err error) {
	const flags = unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err = unix.Openat(dir.fd, name, unix.O_RDWR|unix.O_CREAT|flags, 0o600)
	if !errors.Is(err, unix.EROFS) {
		return fd, true, err
	}
	if fd, again := unix.Openat(dir.fd, name, unix.O_RDONLY|flags, 0); again == nil {
		return fd, false, nil
	}
	return -1, false, err
}

// isNamed reports whether name in the directory dirfd is the open file f.
func isNamed(f *os.File, dirfd int, name string) bool {
	var held, named unix.Stat_t
	return unix.Fstat(int(f.Fd()), &held) == nil &&
		unix.Fstatat(dirfd, name, &named, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		held.Dev == named.Dev && held.Ino == named.Ino
}

func checkLockFile(f *os.File, path string) error {
	info, err := osFile{f}.Stat()
	if err != nil {
		return &Error{path, "the lock file cannot be examined", "", err}
	}
	return judgeLock(info, path)
}

// lookAtLock judges the lock file, if there is one, without opening it.
func lookAtLock(dir *osDirectory, path, name string) error {
	var st unix.Stat_t
	switch err := unix.Fstatat(dir.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return &Error{path, "the lock file cannot be examined", "", err}
	}
	info := infoOf(&st)
	if err := judgeLock(info, path); err != nil {
		return err
	}
	if os.Geteuid() != 0 && info.mode != 0o600 { // root opens it all the same
		return &Error{path, fmt.Sprintf("the lock file has mode %04o", info.mode), "run chmod 0600 on it", nil}
	}
	return nil
}

func judgeLock(info fileInfo, path string) error {
	switch {
	case !info.regular:
		return &Error{path, "the lock file is not a regular file", "remove it while no provider runs", nil}
	case info.owner != os.Geteuid():
		return &Error{path, "the lock file has another owner", "remove it while no provider runs", nil}
	case info.mode&^0o600 != 0:
		// Whoever can open it can hold the lock, and so keep the provider down.
		return &Error{path, fmt.Sprintf("the lock file has mode %04o", info.mode), "run chmod 0600 on it", nil}
	}
	return nil
}

// writePID leaves the holder's process id for the error of the next one. It
// writes in place, in a fixed width: had it emptied the file first, a start on a
// full file system could lose the block to another writer and fail for it.
func writePID(f *os.File) error {
	line := fmt.Appendf(nil, "%-19d\n", os.Getpid())
	if _, err := f.WriteAt(line, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(line)))
}

func readPID(f *os.File) int {
	var buf [32]byte
	n, _ := f.ReadAt(buf[:], 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	if err != nil || pid < 1 {
		return 0
	}
	return pid
}
