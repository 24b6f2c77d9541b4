package socket

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListenReplacesAStaleSocketAndCountsIt(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "kms.sock")
	staleSocket(t, path)
	removed := 0
	o := options(path)
	o.OnStaleRemoved = func() { removed++ }
	l := mustListen(t, o)
	if removed != 1 {
		t.Errorf("OnStaleRemoved was called %d times, want 1", removed)
	}
	echo(t, l, path)
	wantNames(t, dir, "kms.sock")
	l.Close()

	l = mustListen(t, o)
	if removed != 1 {
		t.Errorf("OnStaleRemoved was called on an empty path")
	}
	echo(t, l, path)
}

func TestListenRefusesALiveSocket(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "kms.sock")
	first := mustListen(t, options(path))
	o := options(path)
	o.OnStaleRemoved = func() { t.Error("a live socket counts as stale") }
	_, err := Listen(o)
	wantError(t, err, path, "another process serves it")
	wantNames(t, dir, "kms.sock")

	// The refused start dialled and hung up; the owner sees that one first.
	if c, err := first.Accept(); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	echo(t, first, path)
}

func TestListenRefusesALiveSocketWithAFullBacklog(t *testing.T) {
	path := filepath.Join(tempDir(t), "kms.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path) // takes the one place
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = Listen(options(path))
	wantError(t, err, path, "another process serves it")
}

func TestListenRefusesADatagramSocketInUse(t *testing.T) {
	path := filepath.Join(tempDir(t), "kms.sock")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = Listen(options(path))
	wantError(t, err, path, "does not tell whether it is served")
}

func TestListenRemovesOnlyTheInodeItChecked(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "kms.sock")
	staleSocket(t, path)
	var rival *net.UnixListener // one that knows nothing of our lock
	_, err := listen(options(path), hooks{beforeRemove: func() {
		os.Remove(path)
		var err error
		if rival, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
			t.Fatal(err)
		}
	}})
	defer rival.Close()
	wantError(t, err, path, "was replaced while it was being checked")
	echo(t, rival, path)
	wantNames(t, dir, "kms.sock")
}

func TestListenGoesOnWhenTheStaleSocketVanishes(t *testing.T) {
	path := filepath.Join(tempDir(t), "kms.sock")
	staleSocket(t, path)
	o := options(path)
	o.OnStaleRemoved = func() { t.Error("counted a socket that somebody else removed") }
	l, err := listen(o, hooks{beforeRemove: func() { os.Remove(path) }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	echo(t, l, path)
}

func TestRemoveExactlyPutsBackWhatItDidNotMean(t *testing.T) {
	dir := tempDir(t)
	d, err := openDirectory(filepath.Join(dir, "kms.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	staleSocket(t, filepath.Join(dir, "kms.sock"))
	other, err := d.idOfName("kms.sock")
	if err != nil {
		t.Fatal(err)
	}
	other.ino++
	if err := d.removeExactly("kms.sock", other); !errors.Is(err, errReplaced) {
		t.Errorf("removeExactly = %v, want errReplaced", err)
	}
	wantNames(t, dir, "kms.sock")
	// The last moment: what came after the look is put back, whatever it is.
	id, err := d.idOfName("kms.sock")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kms.sock")
	d.looked = func() {
		os.Remove(path)
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pin, err := d.openInode("kms.sock"); err != nil { // as callers do
		t.Fatal(err)
	} else {
		defer pin.close()
	}
	if err := d.removeExactly("kms.sock", id); !errors.Is(err, errReplaced) {
		t.Errorf("removeExactly = %v, want errReplaced", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	wantNames(t, dir, "kms.sock")
	d.looked = nil
	if err := d.removeExactly("absent", other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removeExactly of nothing = %v, want ErrNotExist", err)
	}
}
