package registry_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// FuzzDecode: whatever is in a state file, Decode does not panic, and what it
// accepts is the one spelling of a registry that holds its invariants. Every
// input is tried as it is and with a hash put on that is right for it, so that
// the fuzzer gets past the hash. More seeds are in testdata/fuzz/FuzzDecode.
func FuzzDecode(f *testing.F) {
	f.Add(sound(f))
	f.Add([]byte(soundBody()))
	f.Add([]byte(unsealed(1, "", snapshot(1, registry.Active))))
	f.Add([]byte(unsealed(2, previous, snapshot(1, registry.Active), pending(2, 0))))
	f.Add([]byte(unsealed(2, previous, snapshot(1, registry.Active), snapshot(2, registry.Rejected))))
	f.Add([]byte(unsealed(9, previous, snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Rejected),
		snapshot(4, registry.Retired), snapshot(5, registry.Active), snapshot(6, registry.Retired), pending(7, 3))))
	f.Fuzz(func(t *testing.T, doc []byte) {
		decodes(t, doc)
		if json.Valid(doc) && bytes.HasSuffix(doc, []byte("\n}\n")) {
			decodes(t, seal(t, string(doc)))
		}
	})
}

// decodes checks one document.
func decodes(t *testing.T, doc []byte) {
	t.Helper()
	given := bytes.Clone(doc)
	r, err := registry.Decode(doc)
	if !bytes.Equal(given, doc) {
		t.Fatal("the document was changed")
	}
	if err != nil {
		if r != nil || err.Error() == "" {
			t.Fatalf("registry %v and error %q", r, err)
		}
		return
	}
	if !bytes.Equal(r.Encode(), doc) {
		t.Fatalf("accepted\n%q\nwhich is not the spelling\n%q", doc, r.Encode())
	}
	if again, err := registry.Decode(r.Encode()); err != nil || again.Hash() != r.Hash() {
		t.Fatalf("not read back: %v", err)
	}
	if bytes.Count(doc, []byte("\n  \"hash\"")) != 1 || !strings.Contains(string(doc), r.Hash()) || !registry.IsHash(r.Hash()) {
		t.Fatalf("hash %q is not the document's", r.Hash())
	}
	active, pending, last := 0, 0, 0
	for _, e := range r.Entries() {
		switch e.State {
		case registry.Active:
			active++
		case registry.Pending:
			pending++
			if e.TransitVersion < r.Active().TransitVersion {
				t.Fatalf("pending %d below active %d", e.TransitVersion, r.Active().TransitVersion)
			}
		}
		if e.TransitVersion <= last || e.VersionCreatedAtUnix < 1 {
			t.Fatalf("version %d after %d, created %d", e.TransitVersion, last, e.VersionCreatedAtUnix)
		}
		last = e.TransitVersion
		if want := r.Scope().KeyID(e.TransitVersion, e.VersionCreatedAtUnix); e.KeyID != want || e.Binding.KeyID() != want {
			t.Fatalf("version %d has key_id %s, want %s", e.TransitVersion, e.KeyID, want)
		}
	}
	if active != 1 || pending > 1 || r.Generation() < 1 {
		t.Fatalf("%d active, %d pending, generation %d", active, pending, r.Generation())
	}
	operates(t, r)
}

// operates retires everything that can be retired from whatever registry was
// read, under a minimum that an operator raised too early, and restores it. At
// the end of its numbers a registry may have no successor: then neither works.
func operates(t *testing.T, r *registry.Registry) {
	t.Helper()
	before := r.Active().TransitVersion
	md := registry.Metadata{CreatedAtUnix: map[int]int64{}, MinDecryption: before}
	var want []int
	for _, e := range r.Entries() {
		md.Latest = max(md.Latest, e.TransitVersion)
		switch {
		case e.State == registry.Retired && e.TransitVersion < before:
			want = append(want, e.TransitVersion)
		case e.State.Retained():
			md.CreatedAtUnix[e.TransitVersion] = e.VersionCreatedAtUnix
		}
	}
	if len(want) == 0 || r.Generation() > math.MaxUint64-2 {
		return
	}
	next, removed, err := r.Retire(md, rules, before)
	if err != nil || !slices.Equal(removed, want) {
		t.Fatalf("retired %v (%v), want %v", removed, err, want)
	}
	if err := next.Validate(md, true); err != nil {
		t.Fatalf("still not valid: %v", err)
	}
	if _, _, err := next.Restore(md, rules, want); err == nil {
		t.Fatal("restored what OpenBao forbids")
	}
	md.MinDecryption = 0
	for _, e := range r.Entries() {
		md.CreatedAtUnix[e.TransitVersion] = e.VersionCreatedAtUnix
	}
	back, restored, err := next.Restore(md, rules, want)
	if err != nil || !slices.Equal(restored, want) || !slices.Equal(contents(back), contents(r)) {
		t.Fatalf("restored %v (%v), want %v", restored, err, want)
	}
}
