// Package kmstest makes registries and status views for the tests of what reads
// them: the KMS service, metrics, readiness. It is called from tests only.
package kmstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// Scope is the scope of every registry here. It has a namespace, so that every
// annotation of the contract is present.
var Scope = identity.Scope{
	ProviderName:      "openbao-kms-workload-a",
	ClusterID:         "workload-a",
	OpenBaoInstanceID: "bao-prod-a",
	OpenBaoNamespace:  "platform",
	TransitMountID:    "transit-prod-primary",
	KeyLineageID:      "01HXEXAMPLEKEYLINEAGEID",
}

// The versions of Registry.
const (
	Removed = iota + 1
	Retired
	Active
	Pending
)

// MaxStaleness is that of the views made here.
const MaxStaleness = 2 * time.Minute

const epoch = 1715803200

var rules = registry.Rules{StableObservations: 1, RejectRollback: true}

func metadata(latest int) registry.Metadata {
	md := registry.Metadata{Latest: latest, CreatedAtUnix: map[int]int64{}}
	for v := 1; v <= latest; v++ {
		md.CreatedAtUnix[v] = CreatedAt(v)
	}
	return md
}

// CreatedAt is the creation second of a Transit version.
func CreatedAt(version int) int64 { return epoch + int64(version) }

// Bootstrapped is generation 1: version 1 is active.
func Bootstrapped(tb testing.TB) *registry.Registry {
	tb.Helper()
	r, err := registry.Bootstrap(Scope, Scope.Fingerprint("transit", "k8s"), metadata(1), epoch)
	if err != nil {
		tb.Fatalf("bootstrap: %v", err)
	}
	return r
}

// Observed is r after Transit's next version was observed: it is pending.
func Observed(tb testing.TB, r *registry.Registry) *registry.Registry {
	tb.Helper()
	entries := r.Entries()
	next, _, err := r.Observe(metadata(entries[len(entries)-1].TransitVersion+1), rules, epoch)
	if err != nil {
		tb.Fatalf("observe: %v", err)
	}
	return next
}

// Promoted is r after its pending snapshot became active.
func Promoted(tb testing.TB, r *registry.Registry) *registry.Registry {
	tb.Helper()
	next, _, err := r.Promote(metadata(r.Pending().TransitVersion), rules, true, epoch)
	if err != nil {
		tb.Fatalf("promote: %v", err)
	}
	return next
}

// Registry has a snapshot in every state that matters, under the versions above.
func Registry(tb testing.TB) *registry.Registry {
	tb.Helper()
	r := Bootstrapped(tb)
	for range Active - 1 {
		r = Promoted(tb, Observed(tb, r))
	}
	return remove(tb, Observed(tb, r), Removed)
}

// remove writes the document that an operator's retirement of one version leaves
// behind, and reads it as a provider would.
func remove(tb testing.TB, r *registry.Registry, version int) *registry.Registry {
	tb.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, r.Encode()); err != nil {
		tb.Fatalf("compact: %v", err)
	}
	body, _, found := strings.Cut(compact.String(), `,"hash":`)
	keyID := Binding(tb, r, version).KeyID()
	before := `"kubernetesKeyId":"` + keyID + `","state":"retired"`
	if !found || strings.Count(body, before) != 1 {
		tb.Fatalf("the registry's document has another form than this helper knows: %s", compact.String())
	}
	body = strings.Replace(body, before, `"kubernetesKeyId":"`+keyID+`","state":"removed"`, 1)
	sum := sha256.Sum256([]byte(body + "}"))
	var doc bytes.Buffer
	if err := json.Indent(&doc, []byte(body+`,"hash":"sha256:`+hex.EncodeToString(sum[:])+`"}`), "", "  "); err != nil {
		tb.Fatalf("indent: %v", err)
	}
	doc.WriteByte('\n')
	next, err := registry.Decode(doc.Bytes())
	if err != nil {
		tb.Fatalf("decode: %v", err)
	}
	return next
}

// Binding is that of a version of r.
func Binding(tb testing.TB, r *registry.Registry, version int) *identity.Binding {
	tb.Helper()
	for _, e := range r.Entries() {
		if e.TransitVersion == version {
			return e.Binding
		}
	}
	tb.Fatalf("the registry has no version %d", version)
	return nil
}

// Facts are those of a healthy provider that publishes r and validated metadata
// just now.
func Facts(r *registry.Registry) status.Facts {
	return status.Facts{
		Registry:     r,
		Metadata:     status.Metadata{ValidatedAt: time.Now()},
		Deep:         status.Deep{KeyID: r.Active().KeyID},
		MaxStaleness: MaxStaleness,
	}
}

// Healthy is the view of Facts.
func Healthy(r *registry.Registry) *status.View { return status.New(Facts(r)) }

// Unhealthy is a view of r whose last metadata probe failed for a reason.
func Unhealthy(r *registry.Registry, reason status.Reason) *status.View {
	f := Facts(r)
	f.Metadata.Reason = reason
	return status.New(f)
}
