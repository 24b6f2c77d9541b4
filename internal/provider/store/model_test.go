package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiskModel runs one script over the model and over a real directory: what
// a process sees must be the same, or the fault tests prove nothing.
func TestDiskModel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	real, err := openDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	model := &injected{disk: newDisk(), plan: &plan{}}

	write := func(d directory, name, content string) error {
		f, err := d.Create(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if n, err := f.Write([]byte(content)); n != len(content) || err != nil {
			return fmt.Errorf("wrote %d: %w", n, err)
		}
		return f.Sync()
	}
	read := func(d directory, name string) string {
		f, err := d.Open(name)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err.Error()
		}
		b, err := io.ReadAll(f)
		if info.size != int64(len(b)) || info.mode != 0o600 || !info.regular || info.owner != os.Geteuid() {
			return fmt.Sprintf("%+v", info)
		}
		return fmt.Sprintf("%q %v", b, err)
	}
	for i, step := range []struct {
		do   func(d directory) error
		want error
	}{
		{func(d directory) error { return d.Remove("a") }, unix.ENOENT},
		{func(d directory) error { return d.Rename("a", "b") }, unix.ENOENT},
		{func(d directory) error { return write(d, "a", "one") }, nil},
		{func(d directory) error { return write(d, "a", "two") }, fs.ErrExist},
		{func(d directory) error { return d.Rename("a", "b") }, nil},
		{func(d directory) error { return write(d, "a", "three") }, nil},
		{func(d directory) error { return d.Sync() }, nil},
		{func(d directory) error { return d.Rename("a", "b") }, nil},
		{func(d directory) error { return write(d, "c", "") }, nil},
		{func(d directory) error { return d.Remove("c") }, nil},
		{func(d directory) error { return d.Remove("c") }, unix.ENOENT},
		{func(d directory) error { return write(d, "c", "four") }, nil},
	} {
		for name, d := range map[string]directory{"real": real, "model": model} {
			if err := step.do(d); !errors.Is(err, step.want) {
				t.Errorf("step %d, %s directory: %v, want %v", i, name, err, step.want)
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			if got, want := read(model, name), read(real, name); got != want {
				t.Errorf("step %d: the model reads %s under %s, a real directory %s", i, got, name, want)
			}
		}
	}
	if got, want := read(model, "b"), `"three" <nil>`; got != want {
		t.Errorf("b holds %s, want %s", got, want)
	}
}

// TestDiskCrashes holds the model to its own promises.
func TestDiskCrashes(t *testing.T) {
	d := newDisk()
	d.place("a", []byte("old"))
	n, err := d.create("t")
	if err != nil {
		t.Fatal(err)
	}
	n.data = []byte("news")
	states := func() string {
		var all []string
		for _, c := range d.crashes() {
			all = append(all, strings.ReplaceAll(strings.TrimSpace(c.String()), "\n", " "))
		}
		return strings.Join(all, " | ")
	}
	want := func(s string) {
		t.Helper()
		if got := states(); got != s {
			t.Errorf("after a crash: %s\nwant %s", got, s)
		}
	}
	// Nothing is synced: the name may be there, with any content.
	want(`a="old" | a="old" t="" | a="old" t="news" | a="old" t="ne" | a="old" t="\x00\x00\x00\x00"`)
	n.sync()
	want(`a="old" | a="old" t="news"`)
	if err := d.rename("t", "a"); err != nil {
		t.Fatal(err)
	}
	want(`a="old" | a="old" t="news" | a="news"`)
	d.sync()
	want(`a="news"`)
	n.lost, n.data = true, []byte("newer")
	n.sync()
	want(`a="news" | a="newer" | a="ne" | a="` + strings.Repeat(`\x00`, 5) + `"`)
}
