package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const changeOnly = "; change the owner only if the provider itself runs as another user"

func TestUserName(t *testing.T) {
	for uid, want := range map[int]string{0: "user 0 (root)", 1<<31 - 5: "user 2147483643"} {
		if got := userName(uid); got != want {
			t.Errorf("userName(%d) = %q, want %q", uid, got, want)
		}
	}
}

// known is a user other than root that this host has a name for.
func known(t *testing.T) (uid int, name string) {
	t.Helper()
	f, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var id int
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 {
			continue
		}
		if _, err := fmt.Sscan(fields[2], &id); err == nil && id > 0 && id != os.Geteuid() {
			return id, fields[0]
		}
	}
	return 0, ""
}

// TestWrongUser: a command that another user runs than the one that owns the
// state must say so, before it makes anything, and must not talk anybody into
// giving the state away.
func TestWrongUser(t *testing.T) {
	if uid := os.Geteuid(); uid != 0 {
		// The root directory is root's, for everybody else.
		_, err := Open("/key-registry.json")
		wantError(t, err, "/", "the state directory is owned by user 0 (root), but this process runs as "+userName(uid),
			"run the command as the user that owns the state"+changeOnly)
		return
	}
	own := lineage(1, ownClock)
	named, name := known(t)
	for _, owner := range []int{stranger(), named} {
		by, how := fmt.Sprintf("user %d", owner), ""
		if owner == named {
			by, how = fmt.Sprintf("user %d (%s)", owner, name), " (runuser -u "+name+" -- COMMAND)"
		}
		for _, with := range []bool{false, true} {
			path := statePath(t)
			if with {
				putRegistry(t, path, own[1])
			}
			if err := os.Chown(filepath.Dir(path), owner, -1); err != nil {
				t.Fatal(err)
			}
			before := everything(t, path)
			_, err := Open(path)
			_, inspectErr := Inspect(path)
			for _, err := range []error{err, inspectErr} {
				wantError(t, err, filepath.Dir(path), "the state directory is owned by "+by+", but this process runs as user 0 (root)",
					"run the command as the user that owns the state"+how+changeOnly)
			}
			after := everything(t, path)
			if len(after) != len(before) {
				t.Errorf("%d files, %d before", len(after), len(before))
			}
			for file, e := range before {
				if after[file] != e {
					t.Errorf("%s was touched", file)
				}
			}
		}
	}
}

// TestStranger looks at a private directory as somebody else, from another
// process: it cannot even be opened, and the error must still name the owner
// where the host shows it.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can become another user")
		return
	}
	base, err := os.MkdirTemp("/tmp", "store") // t.TempDir is private on its way
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	path := filepath.Join(base, "state", modelName)
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), unix.Chmod(base, 0o711)); err != nil {
		t.Fatal(err)
	}
	putRegistry(t, path, genesis(ownClock))
	here := "but this process runs as " + userName(stranger())
	for _, tt := range []struct {
		mode uint32
		want string
	}{
		{0o711, "the state directory is owned by user 0 (root), " + here + ": permission denied; run the command as the user that owns the state" + changeOnly},
		{0o700, "the state directory cannot be opened: permission denied; run the command as the user that owns the state; " +
			"it must be accessible for that user, and this process runs as " + userName(stranger())},
	} {
		if err := unix.Chmod(base, tt.mode); err != nil {
			t.Fatal(err)
		}
		for _, role := range []string{roleHold, roleInspect} {
			want := "open: key registry: " + filepath.Dir(path) + ": " + tt.want
			if got := asStranger(t, role, path); got != want {
				t.Errorf("%s below mode %04o says %q, want %q", role, tt.mode, got, want)
			}
		}
	}
}

// asStranger runs this binary in a role as another user and returns what it says
// first. It may not be able to reach the binary itself, so that is handed over
// open.
func asStranger(t *testing.T, role, path string) string {
	t.Helper()
	binary, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{binary}
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(stranger()), Gid: uint32(stranger())}}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("the other user's process: %v: %s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}
