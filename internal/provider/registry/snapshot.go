package registry

import (
	"fmt"

	"github.com/baokms/baokms/internal/provider/identity"
)

// State is what a snapshot may be used for (design: registry, snapshots).
type State string

// The states. Rejected exists for reading only; nothing writes it.
const (
	Active   State = "active"   // encrypts and decrypts; exactly one
	Pending  State = "pending"  // decrypts, waits for promotion; at most one
	Retired  State = "retired"  // decrypts only
	Removed  State = "removed"  // a record that an operator retired; does neither
	Rejected State = "rejected" // does neither
)

func (s State) known() bool {
	switch s {
	case Active, Pending, Retired, Removed, Rejected:
		return true
	}
	return false
}

// Retained reports whether a snapshot in this state decrypts, and must
// therefore stay usable in OpenBao: active, pending and retired ones do.
func (s State) Retained() bool {
	return s == Active || s == Pending || s == Retired
}

// AADMode says how ciphertexts of a snapshot are bound to it.
type AADMode string

// AADRequired is the only mode: associated data on every encrypt and decrypt.
const AADRequired AADMode = "aad.required"

// Snapshot is one Transit version as this provider knows it. Times are whole
// Unix seconds of this node's wall clock, records only; 0 means "has not
// happened". The identity that all snapshots share is in the Registry.
type Snapshot struct {
	// TransitVersion is at least 1 and unique in a registry.
	TransitVersion int `json:"transitVersion"`
	// VersionCreatedAtUnix is OpenBao's creation time of the version: part of
	// the key_id, never 0.
	VersionCreatedAtUnix int64 `json:"transitVersionCreatedAtUnix"`
	// KeyID is the Kubernetes key_id, derived from the above and the scope.
	KeyID   string  `json:"kubernetesKeyId"`
	State   State   `json:"state"`
	AADMode AADMode `json:"aadMode"`
	// CreatedAtUnix is when this record was made.
	CreatedAtUnix int64 `json:"createdAtUnix"`
	// StableObservations counts the metadata probes that saw this version as
	// the latest, up to rotation.requireStableObservationCount.
	StableObservations int `json:"stableObservations"`
	// ObservedAtUnix is when the first of them was.
	ObservedAtUnix int64 `json:"observedAtUnix"`
	// StableAtUnix is when the count was reached.
	StableAtUnix int64 `json:"stableAtUnix"`
	// PromotedAtUnix is when the snapshot became active.
	PromotedAtUnix int64 `json:"promotedAtUnix"`
}

// Entry is a snapshot together with everything that its version and the
// registry's scope fix. Entries are immutable.
type Entry struct {
	Snapshot
	Binding *identity.Binding
}

// Decrypts reports whether ciphertexts of this snapshot may be decrypted.
func (e *Entry) Decrypts() bool { return e.State.Retained() }

// check holds the snapshot's own fields against each other and against the
// identity that they must derive.
func (s Snapshot) check(b *identity.Binding) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("snapshot of Transit version %d: %s", s.TransitVersion, fmt.Sprintf(format, args...))
	}
	switch {
	case !s.State.known():
		return bad("state is not one of active, pending, retired, removed, rejected")
	case s.AADMode != AADRequired:
		return bad("aadMode is not %s", AADRequired)
	case s.KeyID != b.KeyID():
		return bad("kubernetesKeyId is not the one that its version and creation time give")
	case s.StableObservations < 0:
		return bad("stableObservations is negative")
	case s.CreatedAtUnix < 0 || s.ObservedAtUnix < 0 || s.StableAtUnix < 0 || s.PromotedAtUnix < 0:
		return bad("a timestamp is negative")
	case s.StableAtUnix != 0 && s.StableAtUnix < s.ObservedAtUnix:
		return bad("stableAtUnix is before observedAtUnix")
	case s.PromotedAtUnix != 0 && s.PromotedAtUnix < max(s.ObservedAtUnix, s.StableAtUnix):
		return bad("promotedAtUnix is before an earlier event")
	}
	return nil
}
