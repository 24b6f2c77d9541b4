package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// Documents with the right hash and spelling that no transition can have made.
func TestDecodeRefusesBrokenInvariant(t *testing.T) {
	const active, pend, retired, removed, rejected = registry.Active, registry.Pending, registry.Retired, registry.Removed, registry.Rejected
	list := func(snapshots ...registry.Snapshot) string { return unsealed(7, previous, snapshots...) }
	text := func(old, new string) string {
		t.Helper()
		body := list(snapshot(1, active))
		if !strings.Contains(body, old) {
			t.Fatalf("the document does not hold %q", old)
		}
		return strings.Replace(body, old, new, 1)
	}
	stable := edited(pending(2, 3), func(s *registry.Snapshot) { s.PromotedAtUnix = s.StableAtUnix })
	cases := []struct{ name, body, words string }{
		{"no snapshots", unsealed(7, previous), "no snapshot is active"},
		{"none active", list(snapshot(1, retired)), "no snapshot is active"},
		{"only pending", list(pending(1, 3)), "no snapshot is active"},
		{"only removed and rejected", list(snapshot(1, removed), snapshot(2, rejected)), "no snapshot is active"},
		{"two active", list(snapshot(1, active), snapshot(2, active)), "Transit versions 1 and 2 are both active"},
		{"two pending", list(snapshot(1, active), pending(2, 1), pending(3, 1)), "Transit versions 2 and 3 are both pending"},
		{"pending below active", list(pending(1, 1), snapshot(2, active)), "pending Transit version 1 is below the active version 2"},
		{"retired above active", list(snapshot(1, active), snapshot(2, retired)), "retired Transit version 2 is above the active and the pending version"},
		{"retired above pending", list(snapshot(1, active), pending(2, 1), snapshot(3, retired)), "retired Transit version 3 is above"},
		{"removed above active", list(snapshot(1, active), snapshot(2, removed), pending(3, 1)), "removed Transit version 2 is above the active version 1"},
		{"one version twice", list(snapshot(1, retired), snapshot(1, active)), "Transit version 1 comes after version 1"},
		{"one version twice with other creation times", list(snapshot(1, retired), edited(snapshot(1, active), func(s *registry.Snapshot) {
			s.VersionCreatedAtUnix++
			s.KeyID = scope.KeyID(1, s.VersionCreatedAtUnix)
		})), "versions must ascend and be unique"},
		{"versions descend", list(snapshot(2, active), snapshot(1, retired)), "Transit version 1 comes after version 2"},
		{"version 0", list(snapshot(0, active)), "Transit version 0 is not positive"},
		{"version negative", list(snapshot(-1, active)), "Transit version -1 is not positive"},
		{"no creation time", list(edited(snapshot(1, active), func(s *registry.Snapshot) {
			s.VersionCreatedAtUnix = 0
			s.KeyID = scope.KeyID(1, 0)
		})), "creation time 0 of Transit version 1 is not positive"},
		{"removed without creation time", list(edited(snapshot(1, removed), func(s *registry.Snapshot) {
			s.VersionCreatedAtUnix = 0
			s.KeyID = scope.KeyID(1, 0)
		}), snapshot(2, active)), "creation time 0 of Transit version 1"},
		{"key_id of another version", list(edited(snapshot(1, active), func(s *registry.Snapshot) { s.KeyID = scope.KeyID(2, created(1)) })),
			"kubernetesKeyId is not the one that its version and creation time give"},
		{"key_id of another creation time", list(edited(snapshot(1, active), func(s *registry.Snapshot) { s.VersionCreatedAtUnix++ })), "kubernetesKeyId is not"},
		{"key_id of another cluster", text(`"clusterId": "workload-a"`, `"clusterId": "workload-b"`), "kubernetesKeyId is not"},
		{"key_id empty", list(edited(snapshot(1, active), func(s *registry.Snapshot) { s.KeyID = "" })), "kubernetesKeyId is not"},
		{"one key_id twice", list(snapshot(1, retired), edited(snapshot(2, active), func(s *registry.Snapshot) { s.KeyID = scope.KeyID(1, created(1)) })), "snapshot of Transit version 2: kubernetesKeyId is not"},
		{"removed with a wrong key_id", list(edited(snapshot(1, removed), func(s *registry.Snapshot) { s.KeyID = scope.KeyID(3, created(3)) }), snapshot(2, active)), "snapshot of Transit version 1: kubernetesKeyId is not"},
		{"unknown state", text(`"state": "active"`, `"state": "Active"`), "state is not one of active, pending, retired, removed, rejected"},
		{"unknown second state", list(snapshot(1, active), snapshot(2, "held")), "snapshot of Transit version 2: state is not one of"},
		{"empty state", text(`"state": "active"`, `"state": ""`), "state is not one of"},
		{"no associated data", text(`"aadMode": "aad.required"`, `"aadMode": "aad.none"`), "aadMode is not aad.required"},
		{"empty mode", text(`"aadMode": "aad.required"`, `"aadMode": ""`), "aadMode is not aad.required"},
		{"count negative", text(`"stableObservations": 0`, `"stableObservations": -1`), "stableObservations is negative"},
		{"recorded before 1970", text(fmt.Sprintf(`"createdAtUnix": %d`, start), `"createdAtUnix": -1`), "a timestamp is negative"},
		{"observed before 1970", text(fmt.Sprintf(`"observedAtUnix": %d`, start), `"observedAtUnix": -1`), "a timestamp is negative"},
		{"stable before 1970", text(`"stableAtUnix": 0`, `"stableAtUnix": -1`), "a timestamp is negative"},
		{"promoted before 1970", text(fmt.Sprintf(`"promotedAtUnix": %d`, start), `"promotedAtUnix": -1`), "a timestamp is negative"},
		{"stable before observed", list(snapshot(1, active), edited(pending(2, 3), func(s *registry.Snapshot) { s.StableAtUnix = s.ObservedAtUnix - 1 })), "stableAtUnix is before observedAtUnix"},
		{"promoted before observed", list(edited(snapshot(1, active), func(s *registry.Snapshot) { s.PromotedAtUnix-- })), "promotedAtUnix is before an earlier event"},
		{"promoted before stable", list(snapshot(1, retired), edited(stable, func(s *registry.Snapshot) { s.State, s.PromotedAtUnix = active, s.StableAtUnix-1 })), "promotedAtUnix is before an earlier event"},
		{"generation 0", unsealed(0, "", snapshot(1, active)), "generation is below 1"},
		{"generation 0 with a history", unsealed(0, previous, snapshot(1, active)), "generation is below 1"},
		{"generation 1 with a history", unsealed(1, previous, snapshot(1, active)), "generation 1 has a previousHash"},
		{"generation 2 without a history", unsealed(2, "", snapshot(1, active)), "previousHash is malformed"},
		{"previous hash short", unsealed(2, previous[:len(previous)-1], snapshot(1, active)), "previousHash is malformed"},
		{"previous hash long", unsealed(2, previous+"0", snapshot(1, active)), "previousHash is malformed"},
		{"previous hash of another kind", unsealed(2, strings.Replace(previous, "sha256:", "sha512:", 1), snapshot(1, active)), "previousHash is malformed"},
		{"previous hash in capitals", unsealed(2, strings.ReplaceAll(previous, "0a", "0A"), snapshot(1, active)), "previousHash is malformed"},
		{"previous hash not hex", unsealed(2, strings.ReplaceAll(previous, "0a", "0g"), snapshot(1, active)), "previousHash is malformed"},
		{"fingerprint empty", text(fingerprint, ""), "fingerprint is malformed"},
		{"fingerprint of another kind", text("cfg1.", "cfg2."), "fingerprint is malformed"},
		{"fingerprint cut", text(fingerprint, fingerprint[:len(fingerprint)-1]), "fingerprint is malformed"},
		{"scope field empty", text(`"providerName": "openbao-kms-workload-a"`, `"providerName": ""`), "provider name is empty"},
		{"scope field with control character", text(`"clusterId": "workload-a"`, `"clusterId": "workload-a\u0000"`), "cluster id contains a control character"},
		{"scope field with white space", text(`"transitMountId": "t`, `"transitMountId": " t`), "Transit mount id is surrounded by white space"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wantRefused(t, seal(t, c.body), "breaks an invariant: ")
			wantRefused(t, seal(t, c.body), c.words)
		})
	}
}

func TestIsHash(t *testing.T) {
	digits := strings.Repeat("09af", 16)
	cases := map[string]bool{
		"":                            false,
		"sha256:":                     false,
		digits:                        false,
		"sha256:" + digits:            true,
		"SHA256:" + digits:            false,
		"sha256:" + digits[1:]:        false,
		"sha256:" + digits + "0":      false,
		"sha256:" + digits[1:] + "g":  false,
		"sha256:" + digits[1:] + "/":  false,
		"sha256:" + digits[1:] + ":":  false,
		"sha256:" + digits[1:] + "`":  false,
		"sha256:" + digits[1:] + "F":  false,
		" sha256:" + digits:           false,
		"sha256:" + digits[1:] + "\n": false,
		"sha256:sha256:" + digits[7:]: false,
	}
	for h, want := range cases {
		if got := registry.IsHash(h); got != want {
			t.Errorf("IsHash(%q) is %v, want %v", h, got, want)
		}
	}
}
