package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/baokms/baokms/internal/provider/registry"
)

// wantFault requires an error to be about the injected fault and a file, never
// about the files' content: that would send an operator to a backup.
func (e *explorer) wantFault(err error, what string) {
	e.t.Helper()
	if !isInjected(err) {
		e.t.Fatalf("%s: the error is about something else: %v", what, err)
	}
	if _, ok := errors.AsType[*ConflictError](err); ok {
		e.t.Fatalf("%s: a conflict with nobody: %v", what, err)
	}
	path := ""
	if saving, ok := errors.AsType[*SaveError](err); ok && saving.Step != "" {
		path = saving.Path
	} else if other, ok := errors.AsType[*Error](err); ok && other.Problem != "" {
		path = other.Path
	}
	if !slices.Contains([]string{"/state", "/state/" + modelName, "/state/" + modelName + checkpointSuffix}, path) {
		e.t.Fatalf("%s: the error names %q: %v (%T)", what, path, err, err)
	}
}

// wantDocuments requires each file, as processes see it, to hold exactly the
// document of one of the registries.
func (e *explorer) wantDocuments(d *disk, what string, allowed ...*registry.Registry) {
	e.t.Helper()
	for name, encode := range map[string]func(*registry.Registry) []byte{
		modelName: (*registry.Registry).Encode, modelName + checkpointSuffix: checkpointDocument,
	} {
		got := d.content(name)
		if !slices.ContainsFunc(allowed, func(r *registry.Registry) bool {
			if r == nil {
				return got == nil
			}
			return got != nil && bytes.Equal(got, encode(r))
		}) {
			e.t.Fatalf("%s: %s holds %q, want the document of one of %s", what, name, got, names(allowed))
		}
	}
}

// wantKept requires every identity that was accepted before to decrypt still.
func (e *explorer) wantKept(got *registry.Registry, what string) {
	e.t.Helper()
	if e.before == nil {
		return
	}
	for _, old := range e.before.Entries() {
		if now, ok := got.Lookup(old.KeyID); !ok || !now.Decrypts() {
			e.t.Fatalf("%s: the identity of version %d is lost", what, old.TransitVersion)
		}
	}
}

// isInjected reports whether an error is the consequence of a fault.
func isInjected(err error) bool {
	return errors.Is(err, errInjected) || errors.Is(err, io.ErrShortWrite)
}

func same(a, b *registry.Registry) bool {
	return a == nil && b == nil || a != nil && b != nil && bytes.Equal(a.Encode(), b.Encode())
}

func names(all []*registry.Registry) string {
	var out []string
	for _, r := range all {
		out = append(out, describe(r))
	}
	return fmt.Sprint(out)
}
