package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stranger is a user that this process is not.
func stranger() int { return os.Geteuid() + 4242 }

// unsafeFile is something that may stand in the place of a private file, with
// the words of the store and of its lock about it.
type unsafeFile struct {
	name              string
	make              func(path string) error
	problem, fix      string
	lockProblem       string
	lockFix           string
	privileged, inert bool // needs root; is accepted
	err               error
}

func withMode(mode fs.FileMode) unsafeFile {
	return unsafeFile{
		name:    fmt.Sprintf("mode %04o", mode),
		make:    func(path string) error { return unix.Chmod(path, uint32(mode)) },
		problem: fmt.Sprintf("has mode %04o", mode), fix: "run chmod 0600 on it; doctor then checks what it holds",
		lockProblem: fmt.Sprintf("the lock file has mode %04o", mode), lockFix: "run chmod 0600 on it",
	}
}

func instead(name string, put func(path string) error) unsafeFile {
	return unsafeFile{
		name: name,
		make: func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return put(path)
		},
		problem: "is not a regular file", fix: "restore the file from a backup",
		lockProblem: "the lock file is not a regular file", lockFix: "remove it while no provider runs",
	}
}

func unsafeFiles() []unsafeFile {
	mustBe := "chown it to " + userName(os.Geteuid()) + ", as which the provider runs, with mode 0600"
	const lockMustBe = "it must be a regular file that the process may write"
	link := instead("link to a good file", func(path string) error {
		target := filepath.Join(filepath.Dir(path), "elsewhere")
		if err := os.WriteFile(target, nil, 0o600); err != nil {
			return err
		}
		return os.Symlink(target, path)
	})
	link.problem, link.fix, link.lockProblem, link.lockFix, link.err = "is a symbolic link", "replace it with the file itself", "the lock file cannot be opened", lockMustBe, unix.ELOOP
	dangling := instead("link to nothing", func(path string) error { return os.Symlink("nothing", path) })
	dangling.problem, dangling.fix, dangling.lockProblem, dangling.lockFix, dangling.err = link.problem, link.fix, link.lockProblem, link.lockFix, unix.ELOOP
	socket := instead("socket", func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) })
	socket.problem, socket.fix, socket.lockProblem, socket.lockFix, socket.err = "cannot be opened", mustBe, "the lock file cannot be opened", lockMustBe, unix.ENXIO
	dir := instead("directory", func(path string) error { return os.Mkdir(path, 0o700) })
	dir.lockProblem, dir.lockFix = "the lock file cannot be opened", lockMustBe
	owner := unsafeFile{
		name: "owner", privileged: true,
		make:    func(path string) error { return os.Chown(path, stranger(), -1) },
		problem: fmt.Sprintf("is owned by user %d", stranger()), fix: "chown it to " + userName(os.Geteuid()) + ", as which the provider runs, after checking who had it",
		lockProblem: "the lock file has another owner", lockFix: "remove it while no provider runs",
	}
	device := instead("device", func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) })
	device.privileged = true
	return []unsafeFile{
		withMode(0o640), withMode(0o604), withMode(0o620), withMode(0o602), withMode(0o700), withMode(0o666), withMode(0o601), withMode(0o4600), withMode(0o2600), withMode(0o1600),
		{name: "mode 0400", make: func(path string) error { return os.Chmod(path, 0o400) }, inert: true},
		instead("fifo", func(path string) error { return unix.Mkfifo(path, 0o600) }),
		link, dangling, socket, dir, owner, device,
	}
}

// TestUnsafeFiles puts each of them in the place of each file. What needs root
// to be made is also covered without it, in TestUnsafeInfo.
func TestUnsafeFiles(t *testing.T) {
	own := lineage(2, ownClock)
	for _, tt := range unsafeFiles() {
		if tt.privileged && os.Geteuid() != 0 {
			continue
		}
		for _, suffix := range []string{"", checkpointSuffix} {
			t.Run(tt.name+" as "+modelName+suffix, func(t *testing.T) {
				path := statePath(t)
				putRegistry(t, path, own[1])
				s, running := mustOpen(t, path), (*Store)(nil)
				if err := tt.make(path + suffix); err != nil {
					t.Fatal(err)
				}
				before := listing(t, path)
				check := func(what string, err error) {
					t.Helper()
					wantError(t, err, path+suffix, tt.problem, tt.fix)
					if tt.problem == "cannot be opened" && !errors.Is(err, tt.err) {
						t.Errorf("%s: error %v is not %v", what, err, tt.err)
					}
					wantUntouched(t, path, before)
				}
				within(t, "Load", func() {
					found, inspectErr := Inspect(path)
					loaded, err := s.Load(fingerprint)
					wantAsLoad(t, found, inspectErr, loaded, err, false)
					if tt.inert {
						if err != nil {
							t.Errorf("Load: %v", err)
						}
						return
					}
					check("Load", err)
				})
				if tt.inert {
					return
				}
				// The same under a running process.
				running = s
				running.confirmed = own[1]
				within(t, "Save", func() {
					check("Verify", running.Verify())
					check("Save", running.Save(own[2]))
					check("Retry", running.Retry())
				})
			})
		}
		t.Run(tt.name+" as lock", func(t *testing.T) {
			path := statePath(t)
			if err := os.WriteFile(path+lockSuffix, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(path + lockSuffix); err != nil {
				t.Fatal(err)
			}
			if tt.inert {
				return // only root can write to it
			}
			within(t, "Open", func() {
				s, err := Open(path)
				if err == nil {
					s.Close()
					t.Fatal("the lock was taken")
				}
				wantError(t, err, path+lockSuffix, tt.lockProblem, tt.lockFix)
				// Inspect tells it before the start, where it opens nothing.
				found, inspectErr := Inspect(path)
				if told, is := errors.AsType[*Error](found.LockErr); !is || told.Path != path+lockSuffix || inspectErr != nil || told.Problem != tt.lockProblem && tt.lockProblem != "the lock file cannot be opened" {
					t.Errorf("Inspect tells %v, %v; Open %v", found.LockErr, inspectErr, err)
				}
				if tt.err != nil && !errors.Is(err, tt.err) {
					t.Errorf("error %v is not %v", err, tt.err)
				}
			})
			if _, err := os.Lstat(filepath.Join(filepath.Dir(path), "nothing")); !errors.Is(err, fs.ErrNotExist) {
				t.Error("a file was made through the link")
			}
		})
	}
}

// TestUnsafeInfo holds the checks on the open file, whoever runs the tests.
func TestUnsafeInfo(t *testing.T) {
	own := lineage(1, ownClock)
	for _, tt := range []struct {
		name         string
		change       func(i *fileInfo)
		problem, fix string
	}{
		{"owner", func(i *fileInfo) { i.owner = stranger() }, fmt.Sprintf("is owned by user %d", stranger()), "chown it to " + userName(os.Geteuid()) + ", as which the provider runs, after checking who had it"},
		{"kind", func(i *fileInfo) { i.regular = false }, "is not a regular file", "restore the file from a backup"},
		{"mode", func(i *fileInfo) { i.mode = 0o610 }, "has mode 0610", "run chmod 0600 on it; doctor then checks what it holds"},
	} {
		for _, name := range []string{modelName, modelName + checkpointSuffix} {
			d := newDisk()
			d.place(modelName, own[1].Encode())
			d.place(modelName+checkpointSuffix, checkpointDocument(own[1]))
			tt.change(&d.names[name].info)
			_, _, err := boot(d).start()
			wantError(t, err, "/state/"+name, tt.problem, tt.fix)
		}
	}
}

// TestModes: what the store makes is private, whatever the umask.
func TestModes(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	path := statePath(t)
	s := mustOpen(t, path)
	mustLoad(t, s, nil)
	if err := s.Save(genesis(ownClock)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", checkpointSuffix, lockSuffix} {
		info, err := os.Lstat(path + suffix)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s%s has mode %v (%v), want 0600", modelName, suffix, info.Mode(), err)
		}
	}
}

// TestNothingRevealed: the documents hold neither the key's name nor its path
// (design: overview, invariant 10).
func TestNothingRevealed(t *testing.T) {
	for _, r := range lineage(6, ownClock)[1:] {
		for _, secret := range []string{"transit/kms", "cluster-key"} {
			if strings.Contains(string(r.Encode())+string(checkpointDocument(r)), secret) {
				t.Errorf("generation %d holds %q", r.Generation(), secret)
			}
		}
	}
}
