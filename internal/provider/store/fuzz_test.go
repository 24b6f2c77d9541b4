package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// FuzzCheckpoint: a checkpoint is accepted in one spelling only, and only when
// it is whole.
func FuzzCheckpoint(f *testing.F) {
	good := checkpointDocument(genesis(ownClock))
	for _, seed := range [][]byte{nil, good, good[:len(good)-1], append(bytes.Clone(good), '\n'), []byte("{}"), []byte("null"), []byte("[]"),
		bytes.Replace(good, []byte(": 1,"), []byte(": 1.0,"), 1), bytes.Replace(good, []byte(": 1,"), []byte(": 18446744073709551616,"), 1),
		bytes.Replace(good, []byte("schema"), []byte("Schema"), 1), bytes.Replace(good, []byte("sha256:"), []byte(`sha256\u003a`), 1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := decodeCheckpoint(doc)
		if err != nil {
			if c != (checkpoint{}) {
				t.Fatalf("refused (%v), but returned %+v", err, c)
			}
			return
		}
		if c.Schema != checkpointSchema || c.Generation < 1 || !registry.IsHash(c.Hash) {
			t.Fatalf("accepted %+v", c)
		}
		if !bytes.Equal(c.encode(), doc) {
			t.Fatalf("accepted %q, a second spelling of %q", doc, c.encode())
		}
	})
}

// FuzzLoad puts any two documents into the files. Load must decide as the rules
// say, written here once more and independently, and must change files only to
// complete an interrupted save.
func FuzzLoad(f *testing.F) {
	own, peer := lineage(6, ownClock), lineage(6, peerClock)
	f.Add([]byte(nil), []byte(nil), false, false)
	for g := 1; g <= 6; g++ {
		f.Add(own[g].Encode(), checkpointDocument(own[g]), true, true)
		f.Add(own[g].Encode(), []byte(nil), true, false)
		f.Add([]byte(nil), checkpointDocument(own[g]), false, true)
		f.Add(own[g].Encode(), checkpointDocument(own[max(1, g-1)]), true, true)
		f.Add(own[g].Encode(), checkpointDocument(own[min(6, g+1)]), true, true)
		f.Add(own[g].Encode(), checkpointDocument(peer[g]), true, true)
		f.Add(peer[g].Encode(), checkpointDocument(own[max(1, g-1)]), true, true)
	}
	f.Fuzz(func(t *testing.T, state, checkpoint []byte, hasState, hasCheckpoint bool) {
		d := newDisk()
		if hasState {
			d.place(modelName, append([]byte{}, state...))
		}
		if hasCheckpoint {
			d.place(modelName+checkpointSuffix, append([]byte{}, checkpoint...))
		}
		before := d.String()
		found, inspectErr := inspectDisk(t, d)
		s, got, err := boot(d).start()
		want, complete := expected(state, checkpoint, hasState, hasCheckpoint)
		switch {
		case want == nil && (hasState || hasCheckpoint):
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Problem == "" || e.Fix == "" || e.Path != "/state/"+modelName && e.Path != "/state/"+modelName+checkpointSuffix {
				t.Fatalf("Load = %s, %v, want an *Error with a problem, a fix and one of the files", describe(got), err)
			}
		case err != nil:
			t.Fatalf("Load: %v", err)
		case !same(got, want):
			t.Fatalf("Load = %s, want %s", describe(got), describe(want))
		}
		wantAsLoad(t, found, inspectErr, got, err, complete)
		if err != nil || !complete {
			if d.String() != before {
				t.Fatalf("the files were changed to\n%s", d)
			}
			return
		}
		if !bytes.Equal(d.content(modelName), got.Encode()) || !bytes.Equal(d.content(modelName+checkpointSuffix), checkpointDocument(got)) || len(d.names) != 2 {
			t.Fatalf("the save was not completed:\n%s", d)
		}
		if s.confirmed != got {
			t.Fatal("a completed save is not the confirmed one")
		}
		if _, again, err := boot(d.crashes()[0]).start(); err != nil || !same(again, got) {
			t.Fatalf("the next start: %s, %v", describe(again), err)
		}
	})
}

// expected is the load rules: the registry to load, and whether it is an
// interrupted save that is to be completed.
func expected(state, cp []byte, hasState, hasCheckpoint bool) (want *registry.Registry, complete bool) {
	if !hasState {
		return nil, false
	}
	r, err := registry.Decode(state)
	if err != nil || r.Fingerprint() != fingerprint {
		return nil, false
	}
	if !hasCheckpoint {
		if r.Generation() == 1 {
			return r, true
		}
		return nil, false
	}
	c, err := decodeCheckpoint(cp)
	switch {
	case err != nil:
		return nil, false
	case c.Generation == r.Generation() && c.Hash == r.Hash():
		return r, false
	case c.Generation < r.Generation() && r.Generation()-c.Generation == 1 && c.Hash == r.PreviousHash():
		return r, true
	}
	return nil, false
}
