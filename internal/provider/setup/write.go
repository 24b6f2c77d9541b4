package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DirectoryError says why nothing could be written into the directory.
type DirectoryError struct {
	// Path is the directory.
	Path string
	// Problem is what is wrong; Fix is the next step.
	Problem, Fix string
	// Err is the system's error; nil when the directory was refused as it is.
	Err error
}

func (e *DirectoryError) Error() string {
	s := "the directory " + e.Path + " " + e.Problem
	if e.Err != nil {
		var p *fs.PathError
		var l *os.LinkError
		reason := e.Err
		switch {
		case errors.As(e.Err, &p):
			reason = p.Err
		case errors.As(e.Err, &l):
			reason = l.Err
		}
		s += ": " + reason.Error()
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the system's error.
func (e *DirectoryError) Unwrap() error { return e.Err }

const fixNew = "init never overwrites anything: name a new directory, or an empty one"

// write puts the files into dir, which must be absent or an empty directory. A
// crash leaves no file under its name that is not complete: an absent directory
// appears with all its files at once, and into an empty one each file is brought
// under its name when it is on disk. An error removes what this call made, and
// nothing else. between is called before each file, for tests; it may be nil.
func write(dir string, list []file, between func(name string) error) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return writeNew(dir, list, between)
	case err != nil:
		return &DirectoryError{dir, "cannot be examined", "name another directory", err}
	case info.Mode()&fs.ModeSymlink != 0:
		return &DirectoryError{dir, "is a symbolic link", "name the directory itself", nil}
	case !info.IsDir():
		return &DirectoryError{dir, "is a file", fixNew, nil}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &DirectoryError{dir, "cannot be opened", "name one that you can write to", err}
	}
	defer root.Close()
	if err := empty(dir, root); err != nil {
		return err
	}
	return writeEach(dir, root, list, between)
}

// empty refuses a directory with anything in it.
func empty(dir string, root *os.Root) error {
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return &DirectoryError{dir, "cannot be read", "name one that you can read and write", err}
	}
	if len(names) > 0 {
		return &DirectoryError{dir, fmt.Sprintf("is not empty: it holds %q", names[0].Name()), fixNew, nil}
	}
	return nil
}

// writeNew makes the directory under another name beside it, and renames it when
// all is on disk.
func writeNew(dir string, list []file, between func(string) error) (err error) {
	parent := filepath.Dir(dir)
	if info, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		return &DirectoryError{dir, "would be in a directory that does not exist", "make that one first, or name another", nil}
	} else if err == nil && !info.IsDir() {
		return &DirectoryError{dir, "would be below something that is no directory", "name another one", nil}
	}
	temporary, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".init-")
	if err != nil {
		return &DirectoryError{dir, "cannot be made", "name one where you may write", err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	root, err := os.OpenRoot(temporary)
	if err != nil {
		return &DirectoryError{dir, "cannot be made", "", err}
	}
	defer root.Close()
	for _, f := range list {
		if err := create(root, f.name, f, between); err != nil {
			return &DirectoryError{dir, "cannot be filled: " + f.name, "see whether the disk is full; nothing was left there", err}
		}
	}
	if err := syncDirectory(temporary); err != nil {
		return &DirectoryError{dir, "cannot be made durable", "", err}
	}
	// A rename of a directory replaces an empty directory at most: a file, a link
	// or a directory with something in it, made meanwhile, are refused.
	if err := os.Rename(temporary, dir); err != nil {
		return &DirectoryError{dir, "was made by somebody else meanwhile, or cannot be made", fixNew, err}
	}
	if err := syncDirectory(parent); err != nil {
		return errors.Join(&DirectoryError{dir, "cannot be made durable", "", err}, os.RemoveAll(dir))
	}
	return nil
}

// writeEach writes the files into a directory that is there.
func writeEach(dir string, root *os.Root, list []file, between func(string) error) (err error) {
	var made []string
	defer func() {
		if err == nil {
			return
		}
		for _, name := range made {
			if gone := root.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	failed := func(f file, err error) error {
		if errors.Is(err, fs.ErrExist) {
			return &DirectoryError{dir, "got a file of somebody else meanwhile: " + f.name, fixNew, err}
		}
		return &DirectoryError{dir, "cannot be written to: " + f.name, "name one where you may write, on a disk with space; nothing was left there", err}
	}
	for _, f := range list {
		partial := "." + f.name + ".partial"
		if err := create(root, partial, f, between); err != nil {
			if !errors.Is(err, fs.ErrExist) {
				made = append(made, partial)
			}
			return failed(f, err)
		}
		made = append(made, partial)
		// A link, unlike a rename, never replaces what has the name.
		if err := root.Link(partial, f.name); err != nil {
			return failed(f, err)
		}
		made = append(made, f.name)
		if err := root.Remove(partial); err != nil {
			return failed(f, err)
		}
	}
	if err := syncDirectory(dir); err != nil {
		return &DirectoryError{dir, "cannot be made durable", "", err}
	}
	return nil
}

// create makes a file that must not be there, with exactly its mode whatever the
// umask, and brings it to disk. What it leaves after an error is the caller's to
// remove, unless the error is fs.ErrExist.
func create(root *os.Root, name string, f file, between func(string) error) (err error) {
	if between != nil {
		if err := between(strings.TrimSuffix(strings.TrimPrefix(name, "."), ".partial")); err != nil {
			return err
		}
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	if err := out.Chmod(f.mode); err != nil {
		return err
	}
	if _, err := out.Write(f.content); err != nil {
		return err
	}
	return out.Sync()
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}
