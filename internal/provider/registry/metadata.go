package registry

import (
	"fmt"
	"strconv"
	"strings"
)

// Metadata is what OpenBao says about the Transit key at one moment: the
// validated metadata view that transitions take (design: registry).
type Metadata struct {
	// Latest is latest_version.
	Latest int
	// CreatedAtUnix holds the creation second of each version that OpenBao
	// lists. Versions below MinDecryption are not listed.
	CreatedAtUnix map[int]int64
	// The minimums; 0 and 1 both mean that nothing is blocked.
	MinDecryption, MinEncryption, MinAvailable int
}

// Problem is a stable code for metadata that a registry refuses. The codes are
// those of design/observability.
type Problem string

// The problems.
const (
	// IdentityDrift: a retained version is gone or has another creation time.
	IdentityDrift Problem = "identity_drift"
	// VersionRollback: latest_version is below a retained version.
	VersionRollback Problem = "version_rollback"
	// VersionsBlocked: a minimum forbids decryption of a retained version.
	VersionsBlocked Problem = "versions_blocked"
	// MetadataUnverified: a version to be taken in has no creation time.
	MetadataUnverified Problem = "metadata_unverified"
	// StateUnavailable: there is no registry and none may be made.
	StateUnavailable Problem = "state_unavailable"
)

// Rejection says why metadata was refused. Nothing was changed.
type Rejection struct {
	Problem Problem
	// Versions are the Transit versions concerned, ascending.
	Versions []int
	// Detail is what was expected and what was found, NextStep what to do.
	Detail, NextStep string
}

// Next steps. The first two follow metadata that no OpenBao should give.
const (
	distrusted      = "its metadata cannot be trusted: check what answers at openbao.address"
	contradicts     = "its metadata contradicts itself: check what answers at openbao.address"
	restoreVersions = "restore the key with all its versions"
)

func (r *Rejection) Error() string {
	return string(r.Problem) + ": " + r.Text()
}

// Text is the error without its code.
func (r *Rejection) Text() string { return r.Message() + "; " + r.NextStep }

// Message is what is wrong with which versions.
func (r *Rejection) Message() string { return versionList(r.Versions) + ": " + r.Detail }

func versionList(versions []int) string {
	if len(versions) == 0 {
		return "Transit key"
	}
	words := make([]string, len(versions))
	for i, v := range versions {
		words[i] = strconv.Itoa(v)
	}
	if len(words) == 1 {
		return "Transit version " + words[0]
	}
	return "Transit versions " + strings.Join(words, ", ")
}

// Validate holds metadata against every retained snapshot. It returns nil or a
// *Rejection. With rejectRollback false, a latest_version below a retained
// version is not refused for itself; the creation time that is then missing
// still is (design: registry, transitions).
func (r *Registry) Validate(md Metadata, rejectRollback bool) error {
	if err := md.contradiction(); err != nil {
		return err
	}
	var above, blocked, missing, changed []int
	for _, e := range r.entries {
		if !e.State.Retained() {
			continue
		}
		v := e.TransitVersion
		created, listed := md.CreatedAtUnix[v]
		switch {
		case rejectRollback && v > md.Latest:
			above = append(above, v)
		case md.Forbids(v):
			// OpenBao stops listing these, so this comes before "missing".
			blocked = append(blocked, v)
		case !listed:
			missing = append(missing, v)
		case created != e.VersionCreatedAtUnix:
			changed = append(changed, v)
		}
	}
	switch {
	case len(above) > 0:
		return &Rejection{VersionRollback, above, fmt.Sprintf(
			"OpenBao's latest version is %d: the key was restored from an older backup or replaced", md.Latest), restoreVersions}
	case len(changed) > 0:
		return &Rejection{IdentityDrift, changed,
			"the creation time in OpenBao differs from the recorded one: the key was replaced", "restore the original key"}
	case len(missing) > 0:
		return &Rejection{IdentityDrift, missing,
			"OpenBao no longer lists a version that this registry keeps", restoreVersions}
	case len(blocked) > 0:
		return &Rejection{VersionsBlocked, blocked, fmt.Sprintf(
			"min_decryption_version %d or min_available_version %d forbids decryption of a version that this node still needs",
			md.MinDecryption, md.MinAvailable), "lower the minimum in OpenBao"}
	}
	return nil
}

// Forbids reports whether a minimum forbids decryption with a version.
func (md Metadata) Forbids(version int) bool {
	return version < md.MinDecryption || version < md.MinAvailable
}

// contradiction refuses metadata that lists a version above Latest.
func (md Metadata) contradiction() error {
	highest := md.Latest
	for v := range md.CreatedAtUnix {
		highest = max(highest, v)
	}
	if highest == md.Latest {
		return nil
	}
	return &Rejection{MetadataUnverified, []int{highest}, fmt.Sprintf(
		"OpenBao lists it although it says that %d is the latest", md.Latest), contradicts}
}

// EncryptionBlocked reports whether min_encryption_version forbids the active
// version.
func (r *Registry) EncryptionBlocked(md Metadata) bool {
	return r.active.TransitVersion < md.MinEncryption
}
