package registry_test

import (
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// The registry of these cases keeps 2 (retired), 3 (active), 4 (skipped) and 5
// (pending); 1 was removed by an operator.
func validated(t *testing.T) *registry.Registry {
	t.Helper()
	return stored(t, snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Active), snapshot(4, registry.Retired), pending(5, 1))
}

func TestValidate(t *testing.T) {
	set := func(change func(*registry.Metadata)) registry.Metadata { return with(metadata(5), change) }
	const accepted = ""
	cases := []struct {
		name     string
		md       registry.Metadata
		keep     bool // rejectVersionRollback: false
		problem  registry.Problem
		versions []int
		words    []string
	}{
		{name: "all as recorded", md: metadata(5), problem: accepted},
		{name: "newer versions", md: metadata(9), problem: accepted},
		{name: "a newer version without creation time is not this check's matter", md: without(metadata(6), 6), problem: accepted},
		{name: "minimums at the lowest retained version", problem: accepted,
			md: set(func(md *registry.Metadata) { md.MinDecryption, md.MinAvailable = 2, 2; delete(md.CreatedAtUnix, 1) })},
		{name: "minimums below it", md: set(func(md *registry.Metadata) { md.MinDecryption, md.MinAvailable = 1, 1 }), problem: accepted},
		{name: "encryption minimum above the active version", md: set(func(md *registry.Metadata) { md.MinEncryption = 5 }), problem: accepted},

		{name: "removed version gone", md: without(metadata(5), 1), problem: accepted},
		{name: "removed version made anew", md: set(func(md *registry.Metadata) { md.CreatedAtUnix[1]++ }), problem: accepted},

		{name: "decryption minimum above one", md: set(func(md *registry.Metadata) {
			md.MinDecryption = 3
			delete(md.CreatedAtUnix, 1)
			delete(md.CreatedAtUnix, 2)
		}),
			problem: registry.VersionsBlocked, versions: []int{2}, words: []string{"versions_blocked: Transit version 2:", "min_decryption_version 3", "lower the minimum in OpenBao"}},
		{name: "decryption minimum above several", md: set(func(md *registry.Metadata) {
			md.MinDecryption = 4
			delete(md.CreatedAtUnix, 2)
			delete(md.CreatedAtUnix, 3)
		}),
			problem: registry.VersionsBlocked, versions: []int{2, 3}, words: []string{"Transit versions 2, 3:"}},
		{name: "decryption minimum above all", md: set(func(md *registry.Metadata) { md.MinDecryption = 6; clear(md.CreatedAtUnix) }),
			problem: registry.VersionsBlocked, versions: []int{2, 3, 4, 5}},
		{name: "decryption minimum above one that is still listed", md: set(func(md *registry.Metadata) { md.MinDecryption = 3 }),
			problem: registry.VersionsBlocked, versions: []int{2}},
		{name: "available minimum", md: set(func(md *registry.Metadata) { md.MinAvailable = 3 }),
			problem: registry.VersionsBlocked, versions: []int{2}, words: []string{"min_available_version 3"}},
		{name: "available minimum above all", md: set(func(md *registry.Metadata) { md.MinAvailable = 6; clear(md.CreatedAtUnix) }),
			problem: registry.VersionsBlocked, versions: []int{2, 3, 4, 5}},

		{name: "retired version gone", md: without(metadata(5), 2), problem: registry.IdentityDrift, versions: []int{2},
			words: []string{"identity_drift: Transit version 2:", "no longer lists", "restore the key with all its versions"}},
		{name: "active version gone", md: without(metadata(5), 3), problem: registry.IdentityDrift, versions: []int{3}},
		{name: "skipped version gone", md: without(metadata(5), 4), problem: registry.IdentityDrift, versions: []int{4}},
		{name: "pending version gone", md: without(metadata(5), 5), problem: registry.IdentityDrift, versions: []int{5}},
		{name: "no creation times at all", md: set(func(md *registry.Metadata) { md.CreatedAtUnix = nil }),
			problem: registry.IdentityDrift, versions: []int{2, 3, 4, 5}},
		{name: "retired version a second younger", md: set(func(md *registry.Metadata) { md.CreatedAtUnix[2]++ }),
			problem: registry.IdentityDrift, versions: []int{2}, words: []string{"creation time in OpenBao differs", "restore the original key"}},
		{name: "active version a second older", md: set(func(md *registry.Metadata) { md.CreatedAtUnix[3]-- }),
			problem: registry.IdentityDrift, versions: []int{3}},
		{name: "skipped version changed", md: set(func(md *registry.Metadata) { md.CreatedAtUnix[4] = 0 }),
			problem: registry.IdentityDrift, versions: []int{4}},
		{name: "pending version changed", md: set(func(md *registry.Metadata) { md.CreatedAtUnix[5] = created(4) }),
			problem: registry.IdentityDrift, versions: []int{5}},
		{name: "changed before gone", md: with(without(metadata(5), 4), func(md *registry.Metadata) { md.CreatedAtUnix[5]++ }),
			problem: registry.IdentityDrift, versions: []int{5}, words: []string{"differs"}},
		{name: "gone before blocked", md: set(func(md *registry.Metadata) {
			md.MinDecryption = 3
			delete(md.CreatedAtUnix, 2)
			delete(md.CreatedAtUnix, 4)
		}),
			problem: registry.IdentityDrift, versions: []int{4}},
		{name: "changed before blocked", md: set(func(md *registry.Metadata) { md.MinDecryption = 3; delete(md.CreatedAtUnix, 2); md.CreatedAtUnix[3]++ }),
			problem: registry.IdentityDrift, versions: []int{3}},

		{name: "rollback below the pending version", md: metadata(4), problem: registry.VersionRollback, versions: []int{5},
			words: []string{"version_rollback: Transit version 5:", "latest version is 4", "restored from an older backup or replaced"}},
		{name: "rollback below a skipped version", md: metadata(3), problem: registry.VersionRollback, versions: []int{4, 5}},
		{name: "rollback below the active version", md: metadata(2), problem: registry.VersionRollback, versions: []int{3, 4, 5}},
		{name: "rollback to nothing", md: metadata(0), problem: registry.VersionRollback, versions: []int{2, 3, 4, 5}},
		{name: "rollback before blocked and changed", md: with(metadata(4), func(md *registry.Metadata) { md.MinAvailable = 3; md.CreatedAtUnix[3]++ }),
			problem: registry.VersionRollback, versions: []int{5}},

		{name: "rollback allowed, version gone", keep: true, md: metadata(4), problem: registry.IdentityDrift, versions: []int{5},
			words: []string{"no longer lists"}},
		{name: "rollback allowed, several gone", keep: true, md: metadata(2), problem: registry.IdentityDrift, versions: []int{3, 4, 5}},
		{name: "rollback allowed, nothing left", keep: true, md: metadata(0), problem: registry.IdentityDrift, versions: []int{2, 3, 4, 5}},
		{name: "rollback allowed, all as recorded", keep: true, md: metadata(5), problem: accepted},
		{name: "rollback allowed, still blocked", keep: true, md: set(func(md *registry.Metadata) { md.MinAvailable = 3 }),
			problem: registry.VersionsBlocked, versions: []int{2}},

		{name: "lists more than the latest", md: set(func(md *registry.Metadata) { md.CreatedAtUnix[6] = created(6) }),
			problem: registry.MetadataUnverified, versions: []int{6}, words: []string{"says that 5 is the latest", "contradicts itself"}},
		{name: "lists a retained version above the latest", md: set(func(md *registry.Metadata) { md.Latest = 4 }),
			problem: registry.MetadataUnverified, versions: []int{5}},
		{name: "lists a retained version above the latest, rollback allowed", keep: true, md: set(func(md *registry.Metadata) { md.Latest = 3 }),
			problem: registry.MetadataUnverified, versions: []int{5}},
		{name: "latest is zero but versions are listed", keep: true, md: set(func(md *registry.Metadata) { md.Latest = 0 }),
			problem: registry.MetadataUnverified, versions: []int{5}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := validated(t)
			before := string(r.Encode())
			given := registry.Rules{StableObservations: 3, RejectRollback: !c.keep}
			err := r.Validate(c.md, given.RejectRollback)
			if c.problem == accepted {
				if err != nil {
					t.Fatalf("rejected: %v", err)
				}
				return
			}
			wantRejection(t, err, c.problem, c.versions, c.words...)
			// Every transition that takes metadata stops at the same place and
			// changes nothing.
			transitions := map[string]func() (*registry.Registry, registry.Change, error){
				"observe":  func() (*registry.Registry, registry.Change, error) { return r.Observe(c.md, given, start) },
				"discover": func() (*registry.Registry, registry.Change, error) { return r.Discover(c.md, given, start) },
				"promote":  func() (*registry.Registry, registry.Change, error) { return r.Promote(c.md, given, true, start) },
			}
			for name, transition := range transitions {
				next, change, err := transition()
				if next != nil || change.Any() {
					t.Errorf("%s made %+v", name, change)
				}
				wantRejection(t, err, c.problem, c.versions)
			}
			if string(r.Encode()) != before {
				t.Error("the registry was changed in place")
			}
		})
	}
}

func TestEncryptionBlocked(t *testing.T) {
	r := validated(t) // version 3 is active
	for minimum, want := range map[int]bool{0: false, 1: false, 2: false, 3: false, 4: true, 5: true, 6: true} {
		md := with(metadata(5), func(md *registry.Metadata) { md.MinEncryption = minimum })
		if got := r.EncryptionBlocked(md); got != want {
			t.Errorf("min_encryption_version %d: blocked is %v, want %v", minimum, got, want)
		}
	}
}
