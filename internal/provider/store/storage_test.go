package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallFileSystem mounts one of a few pages, where that is permitted.
func smallFileSystem(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		return "", false
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir, true
}

// fillUp writes a file until nothing fits any more.
func fillUp(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(bytes.Repeat([]byte("x"), size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// TestFullFileSystem: a save on a full disk fails cleanly, the old state stays,
// a restart on the full disk works, and with space the same attempt completes.
// Without the right to mount, TestFileSizeLimit is the real failure that is left.
func TestFullFileSystem(t *testing.T) {
	dir, ok := smallFileSystem(t)
	if !ok {
		t.Log("mounting is not permitted here")
		return
	}
	own := lineage(4, ownClock)
	path, ballast := filepath.Join(dir, modelName), filepath.Join(dir, "ballast")
	putRegistry(t, path, own[1])
	s := mustOpen(t, path)
	mustLoad(t, s, own[1])

	fillUp(t, ballast)
	before := listing(t, path)
	for _, what := range []string{"Save", "Retry"} {
		err := s.Retry()
		if what == "Save" {
			err = s.Save(own[2])
		}
		saving, isSave := errors.AsType[*SaveError](err)
		if !isSave || !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("%s on a full file system: %v (%T)", what, err, err)
		}
		want := "key registry: " + path + ": not saved: " + saving.Step + ": no space left on device; check the file system's space, mode and health"
		if err.Error() != want {
			t.Errorf("%s: %q, want %q", what, err, want)
		}
		if err := s.Verify(); err != nil {
			t.Errorf("%s: Verify: %v", what, err)
		}
		wantUntouched(t, path, before)
	}

	// A restart needs no space, or the node could not even decrypt.
	s.Close()
	restarted := mustOpen(t, path)
	mustLoad(t, restarted, own[1])
	wantUntouched(t, path, before)
	if err := restarted.Save(own[2]); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Save after the restart: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := restarted.Retry(); err != nil {
		t.Fatalf("Retry with space: %v", err)
	}
	wantFiles(t, path, own[2])
	if err := restarted.Save(own[3]); err != nil {
		t.Fatalf("the next save: %v", err)
	}
	wantFiles(t, path, own[3])
	restarted.Close()
}

// TestReadOnlyFileSystem: what ext4 does to a file system after an error.
func TestReadOnlyFileSystem(t *testing.T) {
	dir, ok := smallFileSystem(t)
	if !ok {
		t.Log("mounting is not permitted here")
		return
	}
	own := lineage(3, ownClock)
	path := filepath.Join(dir, modelName)
	putRegistry(t, path, own[1])
	s := mustOpen(t, path)
	mustLoad(t, s, own[1])
	// The lock is open for writing, so the kernel refuses a plain remount; a
	// read-only bind mount over the directory has the same effect on new calls.
	before := listing(t, path)
	readOnly(t, dir, func() {
		err := s.Save(own[2])
		if saving, ok := errors.AsType[*SaveError](err); !ok || !errors.Is(err, unix.EROFS) || saving.Path != path {
			t.Errorf("Save on a read-only file system: %v (%T)", err, err)
		}
		if err := s.Verify(); err != nil {
			t.Errorf("Verify: %v", err)
		}
		if err := s.Retry(); !errors.Is(err, unix.EROFS) {
			t.Errorf("Retry on a read-only file system: %v", err)
		}
		wantUntouched(t, path, before)
	})
	if err := s.Retry(); err != nil {
		t.Fatalf("Retry when it can be written again: %v", err)
	}
	wantFiles(t, path, own[2])
	s.Close()

	// A restart meanwhile: the node loads what it knows, keeps others out, and can
	// save when the file system is writable again.
	before = listing(t, path)
	readOnly(t, dir, func() {
		restarted := mustOpen(t, path)
		mustLoad(t, restarted, own[2])
		var locked *LockedError
		if _, err := Open(path); !errors.As(err, &locked) {
			t.Errorf("a second Open on a read-only file system: %v, want a *LockedError", err)
		}
		if err := restarted.Save(own[3]); !errors.Is(err, unix.EROFS) {
			t.Errorf("Save on a read-only file system: %v", err)
		}
		wantUntouched(t, path, before)
		if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT, ""); err != nil {
			t.Fatal(err)
		}
		if err := restarted.Retry(); err != nil {
			t.Errorf("Retry when it can be written again: %v", err)
		}
		wantFiles(t, path, own[3])
		restarted.Close()
	})

	// Without a lock file there is nothing that could be locked.
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	readOnly(t, dir, func() {
		_, err := Open(path)
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("Open on a read-only file system without a lock file: %v", err)
		}
		wantError(t, err, path+lockSuffix, "the lock file cannot be opened", "make the file system of the state directory writable again")
	})
}

// readOnly runs f while dir cannot be written.
func readOnly(t *testing.T, dir string, f func()) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	f()
}

// TestFileSizeLimit: another real failure of writing, which needs no privilege:
// another process whose files may not grow beyond 100 bytes.
func TestFileSizeLimit(t *testing.T) {
	own := lineage(2, ownClock)
	path := statePath(t)
	putRegistry(t, path, own[1])
	p := startChild(t, roleLimit, path)
	want := "key registry: " + path + ": not saved: write the temporary file: file too large; check the file system's space, mode and health"
	if got := p.line(t); got != want {
		t.Errorf("the save failed with %q, want %q", got, want)
	}
	if got := p.line(t); got != "verified" {
		t.Errorf("after the failed save: %q", got)
	}
	if got := p.line(t); got != "saved" {
		t.Errorf("after the limit was lifted: %q", got)
	}
	wantFiles(t, path, own[2])
	for name := range listing(t, path) {
		if strings.HasSuffix(name, temporarySuffix) {
			t.Errorf("%s is left", name)
		}
	}
}
