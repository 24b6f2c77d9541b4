package store

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// refuse requires Load to name the damaged file of the two, to leave both as they
// are and to quote no identity.
func refuse(t *testing.T, state, checkpoint []byte, damaged, kind string) {
	t.Helper()
	d := newDisk()
	d.place(modelName, state)
	d.place(modelName+checkpointSuffix, checkpoint)
	before := d.key()
	found, inspectErr := inspectDisk(t, d)
	_, got, err := boot(d).start()
	wantAsLoad(t, found, inspectErr, got, err, false)
	wantDamaged(t, got, err, "/state/"+damaged, kind)
	if d.key() != before {
		t.Fatalf("the files were changed to\n%s", d)
	}
}

func wantDamaged(t *testing.T, got *registry.Registry, err error, path, kind string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("Load = %s, %v (%T), want an *Error", describe(got), err, err)
	}
	if e.Path != path || !strings.HasPrefix(e.Problem, kind) || e.Fix != fixBoth || e.Err != nil {
		t.Fatalf("error %+v, want one about %s that begins with %q", *e, path, kind)
	}
	if strings.Contains(err.Error(), "obk2.") || strings.Contains(err.Error(), "sha256:") {
		t.Errorf("error quotes the document: %v", err)
	}
}

// TestTruncatedFiles cuts each real file at every byte, also to nothing.
func TestTruncatedFiles(t *testing.T) {
	own := genesis(ownClock)
	path := statePath(t)
	s := mustOpen(t, path)
	cut := func(damaged, kind string, doc []byte) {
		for n := range doc {
			putRegistry(t, path, own)
			if err := os.Truncate(damaged, int64(n)); err != nil {
				t.Fatal(err)
			}
			before := listing(t, path)
			found, inspectErr := Inspect(path)
			got, err := s.Load(fingerprint)
			wantAsLoad(t, found, inspectErr, got, err, false)
			wantDamaged(t, got, err, damaged, kind)
			wantUntouched(t, path, before)
		}
	}
	cut(path, "the state file ", own.Encode())
	cut(path+checkpointSuffix, "the checkpoint ", checkpointDocument(own))
	putRegistry(t, path, own)
	mustLoad(t, s, own)
}

// TestTruncatedState cuts the state at every byte in each situation that Load
// would otherwise accept or complete.
func TestTruncatedState(t *testing.T) {
	own := lineage(2, ownClock)
	for name, tt := range map[string]struct {
		state      *registry.Registry
		checkpoint []byte
	}{
		"confirmed":              {own[2], checkpointDocument(own[2])},
		"interrupted save":       {own[2], checkpointDocument(own[1])},
		"interrupted first save": {own[1], nil},
	} {
		t.Run(name, func(t *testing.T) {
			doc := tt.state.Encode()
			for n := range doc {
				refuse(t, doc[:n:n], tt.checkpoint, modelName, "the state file ")
			}
		})
	}
}

// TestTruncatedCheckpoint does the same to the checkpoint.
func TestTruncatedCheckpoint(t *testing.T) {
	own := lineage(3, ownClock)
	for name, tt := range map[string]struct{ state, checkpoint *registry.Registry }{
		"confirmed":              {own[3], own[3]},
		"interrupted save":       {own[3], own[2]},
		"first generation":       {own[1], own[1]},
		"cut with state missing": {nil, own[3]},
	} {
		t.Run(name, func(t *testing.T) {
			var state []byte
			if tt.state != nil {
				state = tt.state.Encode()
			}
			doc := checkpointDocument(tt.checkpoint)
			for n := range doc {
				refuse(t, state, doc[:n:n], modelName+checkpointSuffix, "the checkpoint ")
			}
		})
	}
}

// TestFlippedBytes changes one byte at a time in each file.
func TestFlippedBytes(t *testing.T) {
	own := lineage(2, ownClock)
	state, cp := own[2].Encode(), checkpointDocument(own[2])
	for i := range state {
		damaged := bytes.Clone(state)
		damaged[i] ^= []byte{0x01, 0x20, 0x80}[i%3]
		refuse(t, damaged, cp, modelName, "the state file ")
	}
	// A hash digit that became another one is a well-formed checkpoint of
	// another history: then the pair disagrees.
	for i := range cp {
		damaged := bytes.Clone(cp)
		damaged[i] ^= 0x20
		refuse(t, state, damaged, modelName+checkpointSuffix, "the checkpoint ")
	}
}

// TestEditedByHand holds the edits that a hurried person makes.
func TestEditedByHand(t *testing.T) {
	own, peer := lineage(5, ownClock), lineage(5, peerClock)
	state, cp := string(own[5].Encode()), string(checkpointDocument(own[5]))
	edit := func(doc, old, new string) string {
		t.Helper()
		if strings.Count(doc, old) < 1 {
			t.Fatalf("nothing to edit: %q", old)
		}
		return strings.Replace(doc, old, new, 1)
	}
	for _, tt := range []struct{ name, state, checkpoint, problem string }{
		{"state: retired made active", edit(edit(state, `"active"`, `"x"`), `"retired"`, `"active"`), cp, "the state file breaks an invariant: "},
		{"state: a record removed", edit(state, `"retired"`, `"removed"`), cp, "the state file does not have the hash that it states: "},
		{"state: generation raised", edit(state, `"generation": 5`, `"generation": 6`), cp, "the state file does not have the hash that it states: "},
		{"state: hash of the peer", edit(state, own[5].Hash(), peer[5].Hash()), cp, "the state file does not have the hash that it states: "},
		{"state: field twice", edit(state, `"generation": 5,`, `"generation": 5, "generation": 5,`), cp, "the state file is not in its canonical form: "},
		{"state: field in capitals", edit(state, `"generation"`, `"Generation"`), cp, "the state file is not in its canonical form: "},
		{"state: unknown field", edit(state, `"generation": 5,`, `"generation": 5, "note": "x",`), cp, "the state file has a field that this version does not know"},
		{"state: wrong type", edit(state, `"generation": 5`, `"generation": "5"`), cp, "the state file has a field generation of the wrong type"},
		{"state: spaces", edit(state, `"generation": 5`, `"generation":  5`), cp, "the state file is not in its canonical form: "},
		{"state: line ends of another system", strings.ReplaceAll(state, "\n", "\r\n"), cp, "the state file is not in its canonical form: "},
		{"state: byte order mark", "\xef\xbb\xbf" + state, cp, "the state file is not JSON at byte 1"},
		{"state: trailing line", state + "\n", cp, "the state file is not in its canonical form: "},
		{"state: twice", state + state, cp, "the state file is not in its canonical form: "},
		{"state: null", "null\n", cp, "the state file has another schema than "},
		{"state: a list", "[]\n", cp, "the state file is not a JSON object"},
		{"checkpoint: generation lowered", state, edit(cp, `"generation": 5`, `"generation": 0`), "the checkpoint has a malformed generation or hash"},
		{"checkpoint: negative generation", state, edit(cp, `"generation": 5`, `"generation": -5`), "the checkpoint is not a complete checkpoint document: "},
		{"checkpoint: field twice", state, edit(cp, `"generation": 5,`, `"generation": 5, "generation": 5,`), "the checkpoint is not in its canonical form: "},
		{"checkpoint: unknown field", state, edit(cp, `"generation": 5,`, `"generation": 5, "note": "x",`), "the checkpoint is not a complete checkpoint document: "},
		{"checkpoint: trailing line", state, cp + "\n", "the checkpoint is not in its canonical form: "},
		{"checkpoint: no last line end", state, strings.TrimSuffix(cp, "\n"), "the checkpoint is not in its canonical form: "},
		{"checkpoint: null", state, "null\n", "the checkpoint has another schema than "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			damaged := modelName
			if tt.state == state {
				damaged += checkpointSuffix
			}
			refuse(t, []byte(tt.state), []byte(tt.checkpoint), damaged, tt.problem)
		})
	}
}

// The size bounds hold on reading as well as before writing.
func TestTooLarge(t *testing.T) {
	own := lineage(2, ownClock)
	path := statePath(t)
	s := mustOpen(t, path)
	large := append(bytes.Clone(own[1].Encode()), bytes.Repeat([]byte(" "), registry.MaxSize)...)

	put(t, path, large, checkpointDocument(own[1]))
	before := listing(t, path)
	_, err := s.Load(fingerprint)
	found, inspectErr := Inspect(path)
	wantAsLoad(t, found, inspectErr, nil, err, false)
	wantError(t, err, path, "is larger than 1048576 bytes", "restore the file from a backup")
	wantUntouched(t, path, before)

	put(t, path, own[1].Encode(), append(checkpointDocument(own[1]), bytes.Repeat([]byte(" "), maxCheckpointSize)...))
	_, err = s.Load(fingerprint)
	wantError(t, err, path+checkpointSuffix, "is larger than 4096 bytes", "restore the file from a backup")

	// A registry that could not be read again is not written, and is no attempt.
	putRegistry(t, path, own[1])
	mustLoad(t, s, own[1])
	huge, _, err := own[1].Observe(metadata(3000), rules, ownClock)
	if err != nil {
		t.Fatal(err)
	}
	before = listing(t, path)
	err = s.Save(huge)
	if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Problem, "more than 1048576") || e.Fix == "" {
		t.Fatalf("Save of %d bytes: %v", len(huge.Encode()), err)
	}
	wantUntouched(t, path, before)
	wantRegistry(t, s.Attempt(), nil)
	if err := s.Save(own[2]); err != nil {
		t.Fatalf("Save of the usual size: %v", err)
	}
	if _, err := os.Stat(path + temporarySuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a temporary file is left: %v", err)
	}
}
