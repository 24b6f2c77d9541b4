package registry_test

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
)

func TestBootstrap(t *testing.T) {
	for _, minimum := range []int{0, 1} {
		md := with(metadata(1), func(md *registry.Metadata) {
			md.MinDecryption, md.MinEncryption, md.MinAvailable = minimum, minimum, minimum
		})
		r, err := registry.Bootstrap(scope, fingerprint, md, start)
		if err != nil {
			t.Fatalf("minimums %d: %v", minimum, err)
		}
		wantSnapshots(t, r, snapshot(1, registry.Active))
		if r.Generation() != 1 || r.PreviousHash() != "" || r.Scope() != scope || r.Fingerprint() != fingerprint {
			t.Errorf("generation %d, previous hash %q, scope %+v, fingerprint %s", r.Generation(), r.PreviousHash(), r.Scope(), r.Fingerprint())
		}
		if r.Pending() != nil || r.Active() != r.Entries()[0] || r.Active().Binding.KeyID() != r.Active().KeyID {
			t.Errorf("active %+v, pending %+v", r.Active(), r.Pending())
		}
		if want := seal(t, unsealed(1, "", snapshot(1, registry.Active))); string(r.Encode()) != string(want) {
			t.Errorf("document is\n%s\nwant\n%s", r.Encode(), want)
		}
	}
}

// The document's bytes are a contract with every later version of the provider.
func TestDocumentGolden(t *testing.T) {
	const file = "testdata/document.json"
	got := stored(t, snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Active), snapshot(4, registry.Retired), pending(5, 3)).Encode()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the document differs from %s; got:\n%s", file, got)
	}
}

func TestBootstrapRefuses(t *testing.T) {
	const restore = "restore this node's state file and checkpoint from a backup, or for a new node copy both from a peer with the same configuration"
	minimum := func(change func(*registry.Metadata)) registry.Metadata { return with(metadata(1), change) }
	cases := []struct {
		name     string
		md       registry.Metadata
		problem  registry.Problem
		versions []int
		words    []string
	}{
		{"no version", metadata(0), registry.StateUnavailable, nil,
			[]string{"state_unavailable: Transit key: it is at version 0", "has no key registry", restore}},
		{"rotated before", metadata(2), registry.StateUnavailable, nil,
			[]string{"state_unavailable: Transit key: it is at version 2", "only a key at version 1 may start a new one", restore}},
		{"rotated often", metadata(9), registry.StateUnavailable, nil, []string{"it is at version 9", restore}},
		{"decryption minimum", minimum(func(md *registry.Metadata) { md.MinDecryption = 2 }), registry.StateUnavailable, []int{1},
			[]string{"state_unavailable: Transit version 1:", "(decryption 2, encryption 0, available 0)", "the key was in use", restore}},
		{"encryption minimum", minimum(func(md *registry.Metadata) { md.MinEncryption = 2 }), registry.StateUnavailable, []int{1},
			[]string{"(decryption 1, encryption 2, available 0)", restore}},
		{"available minimum", minimum(func(md *registry.Metadata) { md.MinAvailable = 2 }), registry.StateUnavailable, []int{1},
			[]string{"(decryption 1, encryption 0, available 2)", restore}},
		{"no creation time", without(metadata(1), 1), registry.MetadataUnverified, []int{1},
			[]string{"metadata_unverified: Transit version 1:", "no creation time", "cannot be trusted"}},
		{"creation time zero", minimum(func(md *registry.Metadata) { md.CreatedAtUnix[1] = 0 }), registry.MetadataUnverified, []int{1},
			[]string{"creation time"}},
		{"creation time negative", minimum(func(md *registry.Metadata) { md.CreatedAtUnix[1] = -62135596800 }), registry.MetadataUnverified, []int{1},
			[]string{"creation time"}},
		{"contradicts itself", minimum(func(md *registry.Metadata) { md.CreatedAtUnix[2] = created(2) }), registry.MetadataUnverified, []int{2},
			[]string{"Transit version 2", "says that 1 is the latest", "contradicts itself"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := registry.Bootstrap(scope, fingerprint, c.md, start)
			if r != nil {
				t.Fatalf("made generation %d", r.Generation())
			}
			wantRejection(t, err, c.problem, c.versions, c.words...)
		})
	}
}

func TestBootstrapRefusesConfiguration(t *testing.T) {
	empty := scope
	empty.ClusterID = ""
	control := scope
	control.KeyLineageID = "a\x00b"
	cases := []struct {
		name        string
		scope       identity.Scope
		fingerprint string
		words       string
	}{
		{"scope with an empty field", empty, fingerprint, "cluster id is empty"},
		{"scope with NUL", control, fingerprint, "key lineage id contains a control character"},
		{"fingerprint empty", scope, "", "fingerprint is malformed"},
		{"fingerprint of another kind", scope, scope.KeyID(1, 1), "fingerprint is malformed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := registry.Bootstrap(c.scope, c.fingerprint, metadata(1), start)
			if r != nil || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("registry %v, error %v, want none and %q", r, err, c.words)
			}
			if rejection := (*registry.Rejection)(nil); errors.As(err, &rejection) {
				t.Errorf("a configuration error is reported as a problem of OpenBao's metadata: %v", err)
			}
		})
	}
}

// wantRejection checks the problem, the versions and the operator's words.
func wantRejection(t testing.TB, err error, problem registry.Problem, versions []int, words ...string) {
	t.Helper()
	var rejection *registry.Rejection
	if !errors.As(err, &rejection) {
		t.Fatalf("error is %v, want a rejection with %s", err, problem)
	}
	if rejection.Problem != problem || !reflect.DeepEqual(rejection.Versions, versions) {
		t.Errorf("rejected for %s of versions %v, want %s of %v", rejection.Problem, rejection.Versions, problem, versions)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error does not say %q:\n%v", w, err)
		}
	}
}
