package diagnose

import (
	"maps"
	"slices"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/transit"
)

// compared reports whether OpenBao's metadata was read, so that local state can
// be held against it.
func (e *exam) compared() bool { return e.key != nil }

// local is what this node's files hold; nil when that is nothing usable. The
// registry that a first start would make is not there yet, so it is none.
func (e *exam) local() *registry.Registry {
	if e.fresh {
		return nil
	}
	return e.registry
}

// registrySection tells what the files hold, each version with what OpenBao says
// of it. Without OpenBao's metadata local state is told all the same and marked
// as not compared (design: config-and-cli, doctor's checks). It is nil without a
// registry.
func (e *exam) registrySection() *command.Registry {
	r := e.local()
	if r == nil {
		return nil
	}
	told := &command.Registry{
		Generation:          r.Generation(),
		StateHash:           r.Hash(),
		ComparedWithTransit: e.compared(),
		Snapshots:           make([]command.Snapshot, 0, len(r.Entries())),
	}
	for _, s := range r.Entries() {
		line := command.Snapshot{TransitVersion: s.TransitVersion, KeyIDHash: s.Binding.KeyIDHash(), State: string(s.State)}
		if e.compared() {
			line.InTransit = inTransit(s.Snapshot, e.metadata)
		}
		told.Snapshots = append(told.Snapshots, line)
	}
	return told
}

// inTransit is what OpenBao says of a version. It stops listing what a minimum
// forbids, so that comes before "missing".
func inTransit(s registry.Snapshot, md registry.Metadata) string {
	created, listed := md.CreatedAtUnix[s.TransitVersion]
	switch {
	case s.TransitVersion < max(md.MinDecryption, md.MinAvailable):
		return command.Blocked
	case !listed:
		return command.Missing
	case created != s.VersionCreatedAtUnix:
		return command.Differs
	}
	return command.Agrees
}

// transitSection tells what OpenBao says of the key, and which of its versions
// this node does not know; nil when that could not be read.
func (e *exam) transitSection() *command.Transit {
	if !e.compared() {
		return nil
	}
	known := map[int]bool{}
	if r := e.local(); r != nil {
		for _, s := range r.Entries() {
			known[s.TransitVersion] = true
		}
	}
	k := e.key
	told := &command.Transit{
		Type:                 keyType(k),
		LatestVersion:        k.Latest,
		MinDecryptionVersion: k.MinDecryption,
		MinEncryptionVersion: k.MinEncryption,
		MinAvailableVersion:  k.MinAvailable,
		UpsertDisabled:       e.upsertDisabled,
		AutoRotateSeconds:    int64(k.AutoRotatePeriod / time.Second),
		Versions:             make([]command.TransitVersion, 0, len(k.CreatedAtUnix)),
	}
	for _, v := range slices.Sorted(maps.Keys(k.CreatedAtUnix)) {
		told.Versions = append(told.Versions, command.TransitVersion{
			Version: v, CreatedAt: command.At(time.Unix(k.CreatedAtUnix[v], 0)), Known: known[v],
		})
	}
	return told
}

// keyType is the key's type in the words of the profile, which repeats no other
// than the known ones.
func keyType(k *transit.Key) string {
	for _, v := range k.CheckProfile() {
		if v.Field == "type" {
			return v.Got
		}
	}
	return k.Type
}

// reasonNotCompared is the code of metadata that could not be read (design:
// observability, reason codes).
const reasonNotCompared = "metadata_read_failed"

// sideBySide is the report that verify-key, rotation-plan and verify-rotation
// have in common: the checks, and registry and Transit side by side.
func (e *exam) sideBySide(checks []command.Check) *command.Report {
	return &command.Report{
		GeneratedAt: command.At(e.now()),
		Provider:    e.provider(),
		Checks:      e.owningUp(checks),
		Registry:    e.registrySection(),
		Transit:     e.transitSection(),
	}
}

// owningUp makes sure that a report whose local state is not compared does not
// pass. The check that failed says it already; this is for a transit.key that was
// skipped without one.
func (e *exam) owningUp(checks []command.Check) []command.Check {
	if e.compared() || command.Worst(checks) == command.Fail {
		return checks
	}
	checks = slices.Clone(checks)
	for i, c := range checks {
		if c.ID == transitKey {
			c.Result, c.Reason = command.Fail, reasonNotCompared
			c.Message = "OpenBao's metadata was not read, so what this node holds is not compared with it"
			c.NextStep = "run 'bao-kms-provider doctor': it makes every check and says which one stands in the way"
			checks[i] = c
		}
	}
	return checks
}
