package securefile_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/securefile"
)

const content = "canary-0815 of the file"

var private = securefile.Rule{What: "test file", Forbid: securefile.Private, MaxSize: int64(len(content))}

// file writes content with a mode and returns the path.
func file(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	// WriteFile's mode goes through the umask; this one does not.
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestModes(t *testing.T) {
	cases := []struct {
		mode    fs.FileMode
		forbid  fs.FileMode
		problem string // "" when the file is read
		fix     string
	}{
		{0o400, securefile.Private, "", ""},
		{0o600, securefile.Private, "", ""},
		{0o640, securefile.Private, "", ""},
		{0o700, securefile.Private, "", ""},
		{0o750, securefile.Private, "", ""},
		{0o660, securefile.Private, "has mode 0660", "chmod 0640"},
		{0o620, securefile.Private, "has mode 0620", "chmod 0600"},
		{0o644, securefile.Private, "has mode 0644", "chmod 0640"},
		{0o604, securefile.Private, "has mode 0604", "chmod 0600"},
		{0o602, securefile.Private, "has mode 0602", "chmod 0600"},
		{0o601, securefile.Private, "has mode 0601", "chmod 0600"},
		{0o777, securefile.Private, "has mode 0777", "chmod 0750"},
		{0o644, securefile.PublicReadOnly, "", ""},
		{0o444, securefile.PublicReadOnly, "", ""},
		{0o755, securefile.PublicReadOnly, "", ""},
		{0o664, securefile.PublicReadOnly, "has mode 0664", "chmod 0644"},
		{0o646, securefile.PublicReadOnly, "has mode 0646", "chmod 0644"},
		{0o666, securefile.PublicReadOnly, "has mode 0666", "chmod 0644"},
	}
	for _, c := range cases {
		path := file(t, c.mode)
		b, err := securefile.Read(path, securefile.Rule{What: "test file", Forbid: c.forbid, MaxSize: 100})
		if c.problem == "" {
			if err != nil || string(b) != content {
				t.Errorf("mode %04o: %q, %v", c.mode, b, err)
			}
			continue
		}
		checkError(t, b, err, path, c.problem, c.fix)
	}
}

// checkError asserts that nothing was read, and what the error says.
func checkError(t *testing.T, b []byte, err error, path, problem, fix string) {
	t.Helper()
	var e *securefile.Error
	if b != nil || !errors.As(err, &e) {
		t.Errorf("%s: got %q and the error %v (%T)", path, b, err, err)
		return
	}
	text := err.Error()
	if !strings.HasPrefix(text, "test file "+path+": "+problem) || !strings.Contains(text, fix) {
		t.Errorf("got %q, want %q and %q", text, problem, fix)
	}
	if strings.Contains(text, "canary") {
		t.Errorf("the error repeats the content: %q", text)
	}
}

func TestKindsAndPaths(t *testing.T) {
	good := file(t, 0o600)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Symlink(good, at("link")))
	must(t, os.Symlink(at("nothing"), at("dangling")))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	must(t, os.Mkdir(at("dir"), 0o700))
	l, err := net.Listen("unix", at("socket"))
	must(t, err)
	defer l.Close()

	cases := []struct{ name, path, problem, fix string }{
		{"a link", at("link"), "is a symbolic link", "give the path of the file itself"},
		{"a dangling link", at("dangling"), "is a symbolic link", "give the path of the file itself"},
		{"a directory", at("dir"), "is not a regular file", "replace it"},
		{"a FIFO", at("fifo"), "is not a regular file", "replace it"},
		{"a socket", at("socket"), "is not a regular file", "replace it"},
		{"a device", "/dev/null", "is not a regular file", "replace it"},
		{"missing", at("nothing"), "does not exist; create it", "create it or correct the path"},
		{"below a file", good + "/x", "cannot be opened: not a directory", "make it readable"},
		{"relative", "file", "the path is relative", "give an absolute path"},
		{"relative with a dot", "./file", "the path is relative", "give an absolute path"},
		{"a slash at the end", good + "/", "the path is not in its simplest form", "write it as " + good},
		{"a dot segment", dir + "/../x", "the path is not in its simplest form", "write it as " + filepath.Dir(dir) + "/x"},
		{"a double slash", "/" + good, "the path is not in its simplest form", "write it as " + good},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b, err := securefile.Read(c.path, private)
			checkError(t, b, err, c.path, c.problem, c.fix)
		})
	}
	t.Run("no path", func(t *testing.T) {
		b, err := securefile.Read("", private)
		checkError(t, b, err, `""`, "no path is given", "set an absolute path")
	})
	t.Run("a link to the directory is fine", func(t *testing.T) {
		must(t, os.Symlink(filepath.Dir(good), at("dirlink")))
		b, err := securefile.Read(at("dirlink")+"/file", private)
		if err != nil || string(b) != content {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file of another user is refused even when its mode is private: that user
// could change it. Only root can make one; others read one of root's.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		b, err := securefile.Read("/etc/passwd", securefile.Rule{What: "test file", Forbid: securefile.PublicReadOnly, MaxSize: 1 << 20})
		if err != nil || len(b) == 0 {
			t.Errorf("a file of root: %d bytes, %v", len(b), err)
		}
		return
	}
	path := file(t, 0o600)
	must(t, os.Chown(path, 12345, 0))
	b, err := securefile.Read(path, private)
	checkError(t, b, err, path, "is owned by user 12345", "its owner must be root")
	if strings.Contains(err.Error(), "user 0") {
		t.Errorf("root is told by number: %v", err)
	}
	must(t, os.Chown(path, 0, 12345))
	if b, err := securefile.Read(path, private); err != nil || string(b) != content {
		t.Errorf("of another group: %q, %v", b, err)
	}
}

func TestSize(t *testing.T) {
	path := file(t, 0o600)
	n := int64(len(content))
	for _, limit := range []int64{n, n + 1} {
		if b, err := securefile.Read(path, securefile.Rule{What: "test file", Forbid: securefile.Private, MaxSize: limit}); err != nil || string(b) != content {
			t.Errorf("limit %d: %q, %v", limit, b, err)
		}
	}
	b, err := securefile.Read(path, securefile.Rule{What: "test file", Forbid: securefile.Private, MaxSize: n - 1})
	checkError(t, b, err, path, "is larger than 22 bytes", "right file")

	// The size that the system states is not trusted: this file says 0.
	b, err = securefile.Read("/proc/version", securefile.Rule{What: "test file", Forbid: securefile.PublicReadOnly, MaxSize: 4})
	checkError(t, b, err, "/proc/version", "is larger than 4 bytes", "right file")

	must(t, os.Truncate(path, 0))
	if b, err := securefile.Read(path, private); err != nil || len(b) != 0 {
		t.Errorf("an empty file: %q, %v", b, err)
	}
}

// Callers ask what the system said.
func TestErrorUnwraps(t *testing.T) {
	_, err := securefile.Read("/no/such/file", private)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	if strings.Count(err.Error(), "/no/such/file") != 1 {
		t.Errorf("%q does not name the path exactly once", err)
	}
}

// Reading changes nothing: not the file, not where a link leads.
func TestReadLeavesTheFileAlone(t *testing.T) {
	path := file(t, 0o640)
	before, err := os.Lstat(path)
	must(t, err)
	_, err = securefile.Read(path, private)
	must(t, err)
	after, err := os.Lstat(path)
	must(t, err)
	if before.Mode() != after.Mode() || !before.ModTime().Equal(after.ModTime()) || !os.SameFile(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

func TestCheckPath(t *testing.T) {
	for path, want := range map[string]string{"/a": "", "/a/b.c": "", "/": "", "": "no path is given", "a": "relative", "/a/": "simplest form", "/a/./b": "simplest form"} {
		err := securefile.CheckPath(path, "test file")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}
