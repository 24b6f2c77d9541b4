package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
)

var update = flag.Bool("update", false, "rewrite the golden files and transcripts")

// boundVariable is the environment variable that, set to "large", makes the
// searches go further than an ordinary run has time for.
const boundVariable = "BAOKMS_TEST_BOUND"

// start is the wall clock at the beginning of every story, in Unix seconds.
const start = int64(1_760_000_000)

var scope = identity.Scope{
	ProviderName:      "openbao-kms-workload-a",
	ClusterID:         "workload-a",
	OpenBaoInstanceID: "bao-prod-a",
	TransitMountID:    "transit-prod-primary",
	KeyLineageID:      "01HXEXAMPLEKEYLINEAGEID",
}

var fingerprint = scope.Fingerprint("transit/prod", "kms-workload-a")

// rules are the defaults of design/config-and-cli.
var rules = registry.Rules{StableObservations: 3, RejectRollback: true}

// created is the creation second of a version in the OpenBao of these tests.
func created(version int) int64 { return 1_715_803_200 + int64(version)*86_400 }

// metadata is what a healthy OpenBao with this latest version says.
func metadata(latest int) registry.Metadata {
	md := registry.Metadata{Latest: latest, CreatedAtUnix: map[int]int64{}, MinDecryption: 1, MinEncryption: 0, MinAvailable: 0}
	for v := 1; v <= latest; v++ {
		md.CreatedAtUnix[v] = created(v)
	}
	return md
}

// with changes a copy of md.
func with(md registry.Metadata, change func(*registry.Metadata)) registry.Metadata {
	md.CreatedAtUnix = maps.Clone(md.CreatedAtUnix)
	change(&md)
	return md
}

// without is metadata that does not list some versions.
func without(md registry.Metadata, versions ...int) registry.Metadata {
	return with(md, func(md *registry.Metadata) {
		for _, v := range versions {
			delete(md.CreatedAtUnix, v)
		}
	})
}

// snapshot is a well-formed record of a version.
func snapshot(version int, state registry.State) registry.Snapshot {
	s := registry.Snapshot{
		TransitVersion:       version,
		VersionCreatedAtUnix: created(version),
		KeyID:                scope.KeyID(version, created(version)),
		State:                state,
		AADMode:              "aad.required",
		CreatedAtUnix:        start,
	}
	if state == registry.Active {
		s.ObservedAtUnix, s.PromotedAtUnix = start, start
	}
	return s
}

// pending is a pending snapshot with some observations, stable from the third.
func pending(version, observations int) registry.Snapshot {
	s := snapshot(version, registry.Pending)
	s.StableObservations = observations
	if observations > 0 {
		s.ObservedAtUnix = start + 100
	}
	if observations >= 3 {
		s.StableAtUnix = start + 200
	}
	return s
}

// edited is a snapshot with some fields changed.
func edited(s registry.Snapshot, change func(*registry.Snapshot)) registry.Snapshot {
	change(&s)
	return s
}

// unsealed writes a document without its hash, by hand, so that the format is
// held against something other than the code that makes it.
func unsealed(generation uint64, previous string, snapshots ...registry.Snapshot) string {
	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`{`)
	line(`  "schema": "keyregistry.baokms/v1",`)
	line(`  "fingerprint": %s,`, quote(fingerprint))
	line(`  "generation": %d,`, generation)
	line(`  "previousHash": %s,`, quote(previous))
	line(`  "scope": {`)
	line(`    "providerName": %s,`, quote(scope.ProviderName))
	line(`    "clusterId": %s,`, quote(scope.ClusterID))
	line(`    "openbaoInstanceId": %s,`, quote(scope.OpenBaoInstanceID))
	line(`    "openbaoNamespace": %s,`, quote(scope.OpenBaoNamespace))
	line(`    "transitMountId": %s,`, quote(scope.TransitMountID))
	line(`    "keyLineageId": %s`, quote(scope.KeyLineageID))
	line(`  },`)
	line(`  "snapshots": [`)
	for i, s := range snapshots {
		line(`    {`)
		line(`      "transitVersion": %d,`, s.TransitVersion)
		line(`      "transitVersionCreatedAtUnix": %d,`, s.VersionCreatedAtUnix)
		line(`      "kubernetesKeyId": %s,`, quote(s.KeyID))
		line(`      "state": %s,`, quote(string(s.State)))
		line(`      "aadMode": %s,`, quote(string(s.AADMode)))
		line(`      "createdAtUnix": %d,`, s.CreatedAtUnix)
		line(`      "stableObservations": %d,`, s.StableObservations)
		line(`      "observedAtUnix": %d,`, s.ObservedAtUnix)
		line(`      "stableAtUnix": %d,`, s.StableAtUnix)
		line(`      "promotedAtUnix": %d`, s.PromotedAtUnix)
		if i < len(snapshots)-1 {
			line(`    },`)
		} else {
			line(`    }`)
		}
	}
	line(`  ]`)
	line(`}`)
	return b.String()
}

// seal puts the hash into a document: SHA-256 over the compact form of all that
// is in it, whatever that is.
func seal(t testing.TB, doc string) []byte {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(doc)); err != nil {
		t.Fatalf("seal a document that is not JSON: %v\n%s", err, doc)
	}
	sum := sha256.Sum256(compact.Bytes())
	body, ok := strings.CutSuffix(doc, "\n}\n")
	if !ok {
		t.Fatalf("seal a document that does not end in a brace:\n%s", doc)
	}
	return []byte(body + ",\n  \"hash\": \"sha256:" + hex.EncodeToString(sum[:]) + "\"\n}\n")
}

// previous is a well-formed hash for a generation that nobody looks at.
var previous = "sha256:" + strings.Repeat("0a", 32)

// stored is a registry as it would be read from a node's file.
func stored(t testing.TB, snapshots ...registry.Snapshot) *registry.Registry {
	t.Helper()
	r, err := registry.Decode(seal(t, unsealed(7, previous, snapshots...)))
	if err != nil {
		t.Fatalf("decode a document made by hand: %v", err)
	}
	return r
}

// contents are the snapshots of a registry.
func contents(r *registry.Registry) []registry.Snapshot {
	var out []registry.Snapshot
	for _, e := range r.Entries() {
		out = append(out, e.Snapshot)
	}
	return out
}

// wantSnapshots compares whole records.
func wantSnapshots(t testing.TB, r *registry.Registry, want ...registry.Snapshot) {
	t.Helper()
	if got := contents(r); !slices.Equal(got, want) {
		t.Errorf("snapshots are\n%s\nwant\n%s", tell(got), tell(want))
	}
}

func tell(snapshots []registry.Snapshot) string {
	lines := make([]string, len(snapshots))
	for i, s := range snapshots {
		lines[i] = fmt.Sprintf("  %+v", s)
	}
	return strings.Join(lines, "\n")
}

// wantSuccessor checks the chain from one generation to the next.
func wantSuccessor(t testing.TB, before, after *registry.Registry) {
	t.Helper()
	if after.Generation() != before.Generation()+1 || after.PreviousHash() != before.Hash() || !after.Succeeds(before.Generation(), before.Hash()) {
		t.Errorf("generation %d after %s does not follow generation %d with hash %s",
			after.Generation(), after.PreviousHash(), before.Generation(), before.Hash())
	}
	if after.Scope() != scope || after.Fingerprint() != fingerprint {
		t.Errorf("the successor belongs to scope %+v and fingerprint %s", after.Scope(), after.Fingerprint())
	}
}
