package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// TestChangedWhileRunning holds what design: registry, when a save fails, calls
// a conflict: somebody changed the files under the running process. Save and
// Verify name the file, write nothing, and a conflict stays even when the files
// look right again.
func TestChangedWhileRunning(t *testing.T) {
	const (
		other = "the file holds something else than this process last wrote"
		gone  = "the file has disappeared"
		fix   = "restore the state file and the checkpoint of this node's newest generation; restart the provider if it does not recover with its next probe"
	)
	own, peer := lineage(6, ownClock), lineage(6, peerClock)
	state, cp := own[5].Encode(), checkpointDocument(own[5])
	for _, tt := range []struct {
		name              string
		state, checkpoint []byte
		onCheckpoint      bool
		problem           string
	}{
		{"both older copies", own[4].Encode(), checkpointDocument(own[4]), false, other},
		{"state an older copy", own[4].Encode(), cp, false, other},
		{"checkpoint an older copy", state, checkpointDocument(own[4]), true, other},
		{"a peer's files", peer[5].Encode(), checkpointDocument(peer[5]), false, other},
		{"a peer's checkpoint", state, checkpointDocument(peer[5]), true, other},
		{"a peer's next state", lineageFork(own[5]).Encode(), cp, false, other},
		{"both removed", nil, nil, false, gone},
		{"state removed", nil, cp, false, gone},
		{"checkpoint removed", state, nil, true, gone},
		{"state emptied", []byte{}, cp, false, other},
		{"checkpoint emptied", state, []byte{}, true, other},
		{"state edited", bytes.Replace(state, []byte(`"retired"`), []byte(`"removed"`), 1), cp, false, other},
		{"checkpoint edited", state, append(bytes.Clone(cp), '\n'), true, other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			putRegistry(t, path, own[5])
			s := mustOpen(t, path)
			mustLoad(t, s, own[5])
			put(t, path, tt.state, tt.checkpoint)
			before := listing(t, path)
			about := path
			if tt.onCheckpoint {
				about += checkpointSuffix
			}
			wantConflict := func(what string, err error) {
				t.Helper()
				if _, ok := errors.AsType[*ConflictError](err); !ok {
					t.Fatalf("%s: %v (%T), want a *ConflictError", what, err, err)
				}
				wantError(t, err, about, tt.problem, fix)
				wantUntouched(t, path, before)
			}
			wantConflict("Verify", s.Verify())
			wantConflict("Save", s.Save(own[6]))
			wantRegistry(t, s.Attempt(), own[6])
			wantConflict("Retry", s.Retry())

			putRegistry(t, path, own[5])
			before = listing(t, path)
			wantConflict("Retry after the files came back", s.Retry())
			if err := s.Verify(); err != nil {
				t.Errorf("Verify after the files came back: %v", err)
			}
		})
	}
}

// lineageFork is another successor of r than successor(r): what a peer that
// copied r would write.
func lineageFork(r *registry.Registry) *registry.Registry {
	next, _, err := r.Discover(metadata(len(r.Entries())+1), rules, peerClock)
	if err != nil {
		panic(err)
	}
	return next
}

// A first save never writes over files that were not loaded.
func TestFirstSaveOverExistingFiles(t *testing.T) {
	own := lineage(5, ownClock)
	for name, tt := range map[string]struct {
		state, checkpoint []byte
		suffix            string
	}{
		"whole state":     {own[5].Encode(), checkpointDocument(own[5]), ""},
		"state only":      {own[5].Encode(), nil, ""},
		"checkpoint only": {nil, checkpointDocument(own[5]), checkpointSuffix},
		"empty state":     {[]byte{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := statePath(t)
			s := mustOpen(t, path)
			mustLoad(t, s, nil)
			put(t, path, tt.state, tt.checkpoint)
			before := listing(t, path)
			err := s.Save(genesis(peerClock))
			conflict, ok := errors.AsType[*ConflictError](err)
			if !ok || conflict.Found.Path != path+tt.suffix {
				t.Fatalf("Save = %v (%T), want a *ConflictError about %q", err, err, tt.suffix)
			}
			wantUntouched(t, path, before)
		})
	}
}
