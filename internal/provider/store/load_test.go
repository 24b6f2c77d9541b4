package store

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

const (
	fixBoth       = "restore the state file and the checkpoint from one backup"
	fixBothOfNode = "restore the state file and the checkpoint from one backup of this node"
)

// withGeneration is the checkpoint document of any generation and hash.
func withGeneration(generation uint64, hash string) []byte {
	return checkpoint{checkpointSchema, generation, hash}.encode()
}

// TestLoadRules holds every load rule of design: registry, files, over real
// files: what is loaded, what is completed, and what is refused with which words.
func TestLoadRules(t *testing.T) {
	own, peer := lineage(6, ownClock), lineage(6, peerClock)
	otherKey := scope.Fingerprint("transit/kms", "another-key")
	for _, tt := range []struct {
		name        string
		state       []byte
		checkpoint  []byte
		fingerprint string // fingerprint when empty

		want         *registry.Registry
		completed    bool   // the files change to want's documents
		onCheckpoint bool   // the error is about the checkpoint file
		problem, fix string // of the *Error
	}{
		{name: "fresh node"},
		{name: "first generation", state: own[1].Encode(), checkpoint: checkpointDocument(own[1]), want: own[1]},
		{name: "later generation", state: own[5].Encode(), checkpoint: checkpointDocument(own[5]), want: own[5]},

		{name: "interrupted first save", state: own[1].Encode(), want: own[1], completed: true},
		{name: "interrupted second save", state: own[2].Encode(), checkpoint: checkpointDocument(own[1]), want: own[2], completed: true},
		{name: "interrupted later save", state: own[6].Encode(), checkpoint: checkpointDocument(own[5]), want: own[6], completed: true},

		{name: "state missing", checkpoint: checkpointDocument(own[4]),
			problem: "the state file is missing, but its checkpoint names generation 4",
			fix:     "restore the state file of that generation from a backup"},
		{name: "checkpoint missing", state: own[2].Encode(),
			problem: "the checkpoint is missing, and the state file is at generation 2",
			fix:     "restore the checkpoint that belongs to it from a backup"},
		{name: "state one behind", state: own[4].Encode(), checkpoint: checkpointDocument(own[5]),
			problem: "the state file is at generation 4, but the checkpoint has confirmed generation 5: the state file is an older copy",
			fix:     "restore the state file of the newest generation"},
		{name: "state far behind", state: own[1].Encode(), checkpoint: checkpointDocument(own[6]),
			problem: "the state file is at generation 1, but the checkpoint has confirmed generation 6: the state file is an older copy",
			fix:     "restore the state file of the newest generation"},
		{name: "gap", state: own[5].Encode(), checkpoint: checkpointDocument(own[3]),
			problem: "the state file is at generation 5, but the checkpoint is at 3: the checkpoint is an older copy",
			fix:     "restore the checkpoint that belongs to the state file"},
		{name: "fork", state: own[5].Encode(), checkpoint: checkpointDocument(peer[4]),
			problem: "the state file at generation 5 does not follow from the checkpoint at generation 4: the files come from two histories",
			fix:     fixBothOfNode},
		{name: "same generation, other hash", state: own[5].Encode(), checkpoint: checkpointDocument(peer[5]),
			problem: "the state file at generation 5 does not follow from the checkpoint at generation 5: the files come from two histories",
			fix:     fixBothOfNode},
		{name: "first generation of another history", state: own[1].Encode(), checkpoint: checkpointDocument(peer[1]),
			problem: "the state file at generation 1 does not follow from the checkpoint at generation 1: the files come from two histories",
			fix:     fixBothOfNode},
		{name: "right hash under the next generation", state: own[5].Encode(), checkpoint: withGeneration(6, own[5].Hash()),
			problem: "the state file is at generation 5, but the checkpoint has confirmed generation 6: the state file is an older copy",
			fix:     "restore the state file of the newest generation"},
		{name: "right hash under the generation before", state: own[5].Encode(), checkpoint: withGeneration(4, own[5].Hash()),
			problem: "the state file at generation 5 does not follow from the checkpoint at generation 4: the files come from two histories",
			fix:     fixBothOfNode},
		{name: "previous hash two generations back", state: own[5].Encode(), checkpoint: withGeneration(3, own[4].Hash()),
			problem: "the state file is at generation 5, but the checkpoint is at 3: the checkpoint is an older copy",
			fix:     "restore the checkpoint that belongs to the state file"},
		{name: "checkpoint at the last number", state: own[5].Encode(), checkpoint: withGeneration(math.MaxUint64, own[5].Hash()),
			problem: "the state file is at generation 5, but the checkpoint has confirmed generation 18446744073709551615: the state file is an older copy",
			fix:     "restore the state file of the newest generation"},

		{name: "another fingerprint", state: own[5].Encode(), checkpoint: checkpointDocument(own[5]), fingerprint: otherKey,
			problem: "belongs to another configuration: its fingerprint is " + fingerprint + ", the configuration's is " + otherKey,
			fix:     "restore the configuration that this state was made with; compare the output of 'config' across nodes"},
		{name: "another fingerprint is not completed", state: own[5].Encode(), checkpoint: checkpointDocument(own[4]), fingerprint: otherKey,
			problem: "belongs to another configuration: its fingerprint is " + fingerprint + ", the configuration's is " + otherKey,
			fix:     "restore the configuration that this state was made with; compare the output of 'config' across nodes"},
		{name: "another fingerprint's first save is not completed", state: own[1].Encode(), fingerprint: otherKey,
			problem: "belongs to another configuration: its fingerprint is " + fingerprint + ", the configuration's is " + otherKey,
			fix:     "restore the configuration that this state was made with; compare the output of 'config' across nodes"},

		{name: "checkpoint of another schema", state: own[5].Encode(), onCheckpoint: true,
			checkpoint: checkpoint{"keyregistry.baokms/checkpoint/v2", 5, own[5].Hash()}.encode(),
			problem:    "the checkpoint has another schema than keyregistry.baokms/checkpoint/v1", fix: fixBoth},
		{name: "checkpoint is the state", state: own[5].Encode(), checkpoint: own[5].Encode()[:300], onCheckpoint: true,
			problem: "the checkpoint is not a complete checkpoint document: it is damaged or was cut off", fix: fixBoth},
		{name: "checkpoint of generation 0", state: own[1].Encode(), checkpoint: withGeneration(0, own[1].Hash()), onCheckpoint: true,
			problem: "the checkpoint has a malformed generation or hash", fix: fixBoth},
		{name: "checkpoint with an upper-case hash", state: own[5].Encode(), onCheckpoint: true,
			checkpoint: withGeneration(5, "sha256:"+strings.ToUpper(strings.TrimPrefix(own[5].Hash(), "sha256:"))),
			problem:    "the checkpoint has a malformed generation or hash", fix: fixBoth},
		{name: "damaged checkpoint without state", checkpoint: []byte("{"), onCheckpoint: true,
			problem: "the checkpoint is not a complete checkpoint document: it is damaged or was cut off", fix: fixBoth},
		{name: "state is the checkpoint", state: checkpointDocument(own[5]), checkpoint: checkpointDocument(own[5]),
			problem: "the state file has another schema than keyregistry.baokms/v1", fix: fixBoth},
		{name: "empty files", state: []byte{}, checkpoint: []byte{}, onCheckpoint: true,
			problem: "the checkpoint is not a complete checkpoint document: it is damaged or was cut off", fix: fixBoth},
		{name: "empty state, no checkpoint", state: []byte{},
			problem: "the state file is not a complete JSON document: it is empty or was cut off", fix: fixBoth},
		{name: "first generation, empty checkpoint", state: own[1].Encode(), checkpoint: []byte{}, onCheckpoint: true,
			problem: "the checkpoint is not a complete checkpoint document: it is damaged or was cut off", fix: fixBoth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			s := mustOpen(t, path)
			put(t, path, tt.state, tt.checkpoint)
			before := listing(t, path)
			if tt.fingerprint == "" {
				tt.fingerprint = fingerprint
			}
			found, inspectErr := Inspect(path)
			wantUntouched(t, path, before)
			got, err := s.Load(tt.fingerprint)
			wantAsLoad(t, found, inspectErr, got, err, tt.completed)
			if tt.problem != "" {
				about := path
				if tt.onCheckpoint {
					about += checkpointSuffix
				}
				wantError(t, err, about, tt.problem, tt.fix)
				if want := fmt.Sprintf("key registry: %s: %s; %s", about, tt.problem, tt.fix); err.Error() != want {
					t.Errorf("error = %q, want %q", err, want)
				}
				wantUntouched(t, path, before)
				return
			}
			if err != nil {
				t.Fatalf("Load: %v", err)
			}
			wantRegistry(t, got, tt.want)
			if !tt.completed {
				wantUntouched(t, path, before)
				return
			}
			wantFiles(t, path, tt.want)
			if after := listing(t, path); len(after) != 2 {
				t.Errorf("the directory holds %d files, want 2", len(after))
			}
		})
	}
}

// A completed save is a save like any other: the next process finds it and the
// next generation follows it.
func TestLoadCompletesForGood(t *testing.T) {
	own := lineage(6, ownClock)
	path := statePath(t)
	put(t, path, own[5].Encode(), checkpointDocument(own[4]))
	s := mustOpen(t, path)
	mustLoad(t, s, own[5])
	if err := s.Verify(); err != nil {
		t.Errorf("Verify after a completed save: %v", err)
	}
	s.Close()

	s = mustOpen(t, path)
	before := listing(t, path)
	mustLoad(t, s, own[5])
	wantUntouched(t, path, before)
	if err := s.Save(own[6]); err != nil {
		t.Fatalf("Save: %v", err)
	}
	wantFiles(t, path, own[6])
}

// Load is for the start: afterwards a changed file is a conflict, never a new
// truth, and missing files are not a fresh node.
func TestLoadOnlyOnce(t *testing.T) {
	own := lineage(6, ownClock)
	path := statePath(t)
	putRegistry(t, path, own[5])
	s := mustOpen(t, path)
	mustLoad(t, s, own[5])
	put(t, path, nil, nil)
	_, err := s.Load(fingerprint)
	wantError(t, err, path, "a registry was already loaded or saved", "report this as a defect")
	putRegistry(t, path, own[3])
	_, err = s.Load(fingerprint)
	wantError(t, err, path, "a registry was already loaded or saved", "report this as a defect")
}

// A load that was refused may be tried again once the files are right.
func TestLoadAfterRepair(t *testing.T) {
	own := lineage(6, ownClock)
	path := statePath(t)
	put(t, path, own[4].Encode(), checkpointDocument(own[5]))
	s := mustOpen(t, path)
	if got, err := s.Load(fingerprint); err == nil {
		t.Fatalf("an older copy was loaded: generation %s", describe(got))
	}
	putRegistry(t, path, own[5])
	mustLoad(t, s, own[5])
	if err := s.Save(own[6]); err != nil {
		t.Fatalf("Save: %v", err)
	}
	wantFiles(t, path, own[6])
}
