package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/registry"
)

// Save makes next durable: the state file first, then the checkpoint. Only a nil
// error confirms it. next must be generation 1 on a fresh node, else the direct
// successor of what was last loaded or saved.
//
// After any other error next is the outstanding attempt: the files may hold
// either document, and nothing else can be saved until Retry has completed it.
func (s *Store) Save(next *registry.Registry) error {
	if err := s.follows(next); err != nil {
		return err
	}
	s.attempt = next
	return s.commit()
}

// Attempt returns the registry whose save failed and is outstanding, nil when
// there is none.
func (s *Store) Attempt() *registry.Registry { return s.attempt }

// Retry repeats the outstanding save of exactly the attempted document, with all
// its barriers. It first reads both files again: each must hold the confirmed or
// the attempted document, else nothing is written and the *ConflictError stays
// until the process restarts (design: registry, when a save fails).
func (s *Store) Retry() error {
	if s.attempt == nil {
		return nil
	}
	return s.commit()
}

// Verify reads both files again and reports a *ConflictError when they are not
// what was last confirmed, or an *Error when they cannot be read. It changes
// nothing.
func (s *Store) Verify() error {
	d, err := s.directory()
	if err != nil {
		return err
	}
	defer d.Close()
	return s.expect(d, s.confirmed)
}

// commit writes the attempt over files that hold nothing but the confirmed
// document or the attempt itself.
func (s *Store) commit() error {
	if s.conflict != nil {
		return s.conflict
	}
	d, err := s.directory()
	if err != nil {
		errors.As(err, &s.conflict)
		return err
	}
	defer d.Close()
	if err := s.expect(d, s.confirmed, s.attempt); err != nil {
		errors.As(err, &s.conflict)
		return err
	}
	if err := s.write(d, s.attempt); err != nil {
		return err
	}
	s.confirmed, s.attempt = s.attempt, nil
	return nil
}

// expect reads both files and requires each to hold the document of one of the
// allowed registries. A nil registry stands for a fresh node: the file is
// missing.
func (s *Store) expect(d directory, allowed ...*registry.Registry) error {
	var states, checkpoints [][]byte
	for _, r := range allowed {
		if r == nil {
			states, checkpoints = append(states, nil), append(checkpoints, nil)
			continue
		}
		states, checkpoints = append(states, r.Encode()), append(checkpoints, checkpointOf(r).encode())
	}
	if err := s.expectFile(d, s.name, registry.MaxSize, states); err != nil {
		return err
	}
	return s.expectFile(d, s.name+checkpointSuffix, maxCheckpointSize, checkpoints)
}

func (s *Store) expectFile(d directory, name string, limit int64, allowed [][]byte) error {
	content, err := s.read(d, name, limit)
	if err != nil {
		return err
	}
	for _, a := range allowed {
		if (content == nil) == (a == nil) && bytes.Equal(content, a) {
			return nil
		}
	}
	found := "the file holds something else than this process last wrote"
	if content == nil {
		found = "the file has disappeared"
	}
	return &ConflictError{&Error{s.file(name), found,
		"restore the state file and the checkpoint of this node's newest generation; restart the provider if it does not recover with its next probe", nil}}
}

// follows refuses to write a document that this history does not lead to.
func (s *Store) follows(next *registry.Registry) error {
	if n := len(next.Encode()); n > registry.MaxSize {
		return &Error{s.path, fmt.Sprintf("the next state would have %d bytes, more than %d", n, registry.MaxSize), "this registry has reached the most key versions that it can hold: keep it, and plan a move to a new Transit key", nil}
	}
	switch {
	case s.attempt != nil:
		return &Error{s.path, "another save failed before and has not been completed", "repair the storage; the provider retries at each probe", nil}
	case s.confirmed == nil && next.Generation() != 1,
		s.confirmed != nil && !next.Succeeds(s.confirmed.Generation(), s.confirmed.Hash()):
		return &Error{s.path, fmt.Sprintf("generation %d does not follow from what was last saved", next.Generation()), "report this as a defect", nil}
	}
	return nil
}

// write replaces both files with r's documents, with every barrier.
func (s *Store) write(d directory, r *registry.Registry) error {
	if err := s.replace(d, s.name, r.Encode()); err != nil {
		return err
	}
	return s.replace(d, s.name+checkpointSuffix, checkpointOf(r).encode())
}

// replace writes one file so that a crash leaves either the old or the new
// content under its name: a new file, synced, renamed over the old one, and the
// directory synced.
func (s *Store) replace(d directory, name string, content []byte) error {
	fail := func(step string, err error) error { return &SaveError{s.file(name), step, err} }
	temporary := name + temporarySuffix
	if err := removeTemporary(d, name); err != nil {
		return fail("remove an old temporary file", err)
	}
	f, err := d.Create(temporary)
	if err != nil {
		return fail("create the temporary file", err)
	}
	if err := fill(f, content); err != nil {
		f.Close()
		removeTemporary(d, name)
		return fail("write the temporary file", err)
	}
	if err := d.Rename(temporary, name); err != nil {
		removeTemporary(d, name)
		return fail("rename the temporary file into place", err)
	}
	if err := d.Sync(); err != nil {
		return fail("sync the directory", err)
	}
	return nil
}

// fill writes content, syncs and closes.
func fill(f file, content []byte) error {
	n, err := f.Write(content)
	if err == nil && n < len(content) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

func removeTemporary(d directory, name string) error {
	if err := d.Remove(name + temporarySuffix); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
