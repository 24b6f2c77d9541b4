package registry

import (
	"errors"
	"fmt"

	"github.com/baokms/baokms/internal/provider/identity"
)

// Registry is an immutable generation of the key registry. The zero value is
// not usable; Bootstrap, Decode and the transitions make registries.
type Registry struct {
	scope        identity.Scope
	fingerprint  string
	generation   uint64
	previousHash string

	entries []*Entry // by ascending version
	byKeyID map[string]*Entry
	active  *Entry
	pending *Entry // nil when no rotation is pending

	encoded []byte // the canonical document
	hash    string // of everything in it but itself
}

// content is what a Registry is made of.
type content struct {
	scope        identity.Scope
	fingerprint  string
	generation   uint64
	previousHash string
	snapshots    []Snapshot
}

// build makes a Registry, or says which invariant it would break. It is the
// only way to a Registry: transitions and decoded files both pass through it.
func build(c content) (*Registry, error) {
	r := &Registry{
		scope:        c.scope,
		fingerprint:  c.fingerprint,
		generation:   c.generation,
		previousHash: c.previousHash,
		byKeyID:      make(map[string]*Entry, len(c.snapshots)),
	}
	if err := r.checkChain(); err != nil {
		return nil, err
	}
	for _, s := range c.snapshots {
		if err := r.add(s); err != nil {
			return nil, err
		}
	}
	if err := r.checkStates(); err != nil {
		return nil, err
	}
	r.encoded, r.hash = encode(r)
	return r, nil
}

func (r *Registry) checkChain() error {
	switch {
	case !identity.IsFingerprint(r.fingerprint):
		return errors.New("fingerprint is malformed")
	case r.generation < 1:
		return errors.New("generation is below 1")
	case r.generation == 1 && r.previousHash != "":
		return errors.New("generation 1 has a previousHash")
	case r.generation > 1 && !IsHash(r.previousHash):
		return errors.New("previousHash is malformed")
	}
	return r.scope.Validate()
}

// add appends one snapshot. Versions ascend, so that a registry has one
// spelling and no version twice.
func (r *Registry) add(s Snapshot) error {
	if n := len(r.entries); n > 0 && s.TransitVersion <= r.entries[n-1].TransitVersion {
		return fmt.Errorf("snapshot of Transit version %d comes after version %d: versions must ascend and be unique",
			s.TransitVersion, r.entries[n-1].TransitVersion)
	}
	b, err := r.scope.Bind(s.TransitVersion, s.VersionCreatedAtUnix)
	if err != nil {
		return err
	}
	if err := s.check(b); err != nil {
		return err
	}
	if _, taken := r.byKeyID[s.KeyID]; taken {
		return fmt.Errorf("snapshot of Transit version %d has the key_id of another one", s.TransitVersion)
	}
	e := &Entry{Snapshot: s, Binding: b}
	r.entries = append(r.entries, e)
	r.byKeyID[s.KeyID] = e
	switch s.State {
	case Active:
		if r.active != nil {
			return fmt.Errorf("snapshots of Transit versions %d and %d are both active", r.active.TransitVersion, s.TransitVersion)
		}
		r.active = e
	case Pending:
		if r.pending != nil {
			return fmt.Errorf("snapshots of Transit versions %d and %d are both pending", r.pending.TransitVersion, s.TransitVersion)
		}
		r.pending = e
	}
	return nil
}

func (r *Registry) checkStates() error {
	if r.active == nil {
		return errors.New("no snapshot is active")
	}
	for _, e := range r.entries {
		switch {
		case e.State == Pending && e.TransitVersion < r.active.TransitVersion:
			return fmt.Errorf("pending Transit version %d is below the active version %d", e.TransitVersion, r.active.TransitVersion)
		case e.State == Removed && e.TransitVersion > r.active.TransitVersion:
			return fmt.Errorf("removed Transit version %d is above the active version %d", e.TransitVersion, r.active.TransitVersion)
		case e.State == Retired && e.TransitVersion > r.top():
			return fmt.Errorf("retired Transit version %d is above the active and the pending version", e.TransitVersion)
		}
	}
	return nil
}

// top is the version that encrypts last: the pending one, or the active one.
func (r *Registry) top() int {
	if r.pending != nil {
		return r.pending.TransitVersion
	}
	return r.active.TransitVersion
}

// Scope is the identity that all snapshots share.
func (r *Registry) Scope() identity.Scope { return r.scope }

// Fingerprint identifies the configuration that the registry belongs to.
func (r *Registry) Fingerprint() string { return r.fingerprint }

// Generation counts saved states; the first is 1.
func (r *Registry) Generation() uint64 { return r.generation }

// PreviousHash is the hash of the generation before, "" for generation 1.
func (r *Registry) PreviousHash() string { return r.previousHash }

// Hash is "sha256:" and 64 hex digits over the canonical document without its
// hash: what operators review before they apply a plan.
func (r *Registry) Hash() string { return r.hash }

// Active is the one snapshot that encrypts.
func (r *Registry) Active() *Entry { return r.active }

// Pending is the snapshot that waits for promotion, nil when there is none.
func (r *Registry) Pending() *Entry { return r.pending }

// Entries are all snapshots by ascending version, removed ones included. The
// caller must not change the slice.
func (r *Registry) Entries() []*Entry { return r.entries }

// Lookup returns the snapshot with this key_id, in whatever state it is.
func (r *Registry) Lookup(keyID string) (*Entry, bool) {
	e, ok := r.byKeyID[keyID]
	return e, ok
}

// Succeeds reports whether r is the direct successor of the generation with
// this number and hash.
func (r *Registry) Succeeds(generation uint64, hash string) bool {
	return r.generation == generation+1 && r.previousHash == hash
}
