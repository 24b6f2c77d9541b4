package registry

import (
	"fmt"

	"github.com/baokms/baokms/internal/provider/identity"
)

// Bootstrap makes generation 1 for a node that has no state: version 1 of a key
// that was never rotated is active. now is Unix seconds.
//
// Everything else is refused with StateUnavailable or MetadataUnverified. A key
// with more versions has a history, and which of its versions the cluster's data
// needs is known only to a registry: guessing could make the key_id of this node
// differ from its peers', or forget one (design: registry, transitions).
func Bootstrap(s identity.Scope, fingerprint string, md Metadata, now int64) (*Registry, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	const restore = "restore this node's state file and checkpoint from a backup, or for a new node copy both from a peer with the same configuration"
	switch {
	case md.Latest != 1:
		return nil, &Rejection{StateUnavailable, nil, fmt.Sprintf(
			"it is at version %d, but this node has no key registry, and only a key at version 1 may start a new one", md.Latest), restore}
	case md.MinDecryption > 1 || md.MinEncryption > 1 || md.MinAvailable > 1:
		return nil, &Rejection{StateUnavailable, []int{1}, fmt.Sprintf(
			"this node has no key registry, and a minimum above 1 (decryption %d, encryption %d, available %d) says that the key was in use",
			md.MinDecryption, md.MinEncryption, md.MinAvailable), restore}
	}
	if err := md.contradiction(); err != nil {
		return nil, err
	}
	created, ok := md.CreatedAtUnix[1]
	if !ok {
		return nil, &Rejection{MetadataUnverified, []int{1}, "OpenBao gives no creation time", distrusted}
	}
	b, err := s.Bind(1, created)
	if err != nil {
		return nil, &Rejection{MetadataUnverified, []int{1}, "OpenBao's creation time is not usable", distrusted}
	}
	return build(content{
		scope:       s,
		fingerprint: fingerprint,
		generation:  1,
		snapshots: []Snapshot{{
			TransitVersion:       1,
			VersionCreatedAtUnix: created,
			KeyID:                b.KeyID(),
			State:                Active,
			AADMode:              AADRequired,
			CreatedAtUnix:        now,
			ObservedAtUnix:       now,
			PromotedAtUnix:       now,
		}},
	})
}
