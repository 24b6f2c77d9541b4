package diagnose

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/internal/provider/version"
)

var updateRotation = flag.Bool("update-rotation", false, "write the reports in testdata/rotation again")

// rotationNow is when the examinations here are made.
var rotationNow = time.Date(2026, 11, 30, 6, 15, 0, 0, time.UTC)

// rotationConfig has the defaults: 3 observations, 30s apart, then 2m.
func rotationConfig(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(`
configVersion: v1alpha1
server: {socketPath: /canary-socket/kms.sock, socketGroup: "0"}
openbao: {address: "https://canary-address.test:8200", caCertFile: /canary-ca.pem, tlsServerName: canary-name.test, instanceId: bao-a}
auth: {method: jwt, jwt: {mountPath: auth/canary-login, role: canary-role, jwtFile: /canary-jwt}}
transit:
  mountPath: canary-mount
  keyName: canary-key
  keyIdScope: {providerName: openbao-kms-a, clusterId: cluster-a, transitMountId: mount-a, keyLineageId: lineage-a}
state: {path: /canary-state/key-registry.json}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rotated is OpenBao's metadata after rotations up to a version.
func rotated(latest int) registry.Metadata {
	md := registry.Metadata{Latest: latest, MinDecryption: 1, CreatedAtUnix: map[int]int64{}}
	for v := 1; v <= latest; v++ {
		md.CreatedAtUnix[v] = rotationNow.Unix() - 86400*int64(30-v)
	}
	return md
}

// story makes an exam step by step.
type story struct {
	t *testing.T
	*exam
}

// newStory is a node on which version 1 is active, in OpenBao too, and whose
// provider runs.
func newStory(t *testing.T) *story {
	t.Helper()
	e := newExam(Options{Build: version.Info{Version: "v1.0.0"}, Now: func() time.Time { return rotationNow }})
	e.config = rotationConfig(t)
	disabled := true
	e.upsertDisabled, e.running = &disabled, &running{healthz: "ok"}
	e.key = &transit.Key{Type: transit.KeyType, SupportsEncryption: true, SupportsDecryption: true}
	s := &story{t, e}
	s.says(rotated(1))
	var err error
	if e.registry, err = registry.Bootstrap(e.config.Scope(), e.config.Fingerprint(), e.metadata, rotationNow.Unix()-86400); err != nil {
		t.Fatal(err)
	}
	return s
}

// says sets what OpenBao says of the key.
func (s *story) says(md registry.Metadata) {
	s.metadata = md
	k := s.key
	k.Latest, k.CreatedAtUnix = md.Latest, maps.Clone(md.CreatedAtUnix)
	k.MinDecryption, k.MinEncryption, k.MinAvailable = md.MinDecryption, md.MinEncryption, md.MinAvailable
	maps.DeleteFunc(k.CreatedAtUnix, func(v int, _ int64) bool { return v < md.MinDecryption })
	s.metadata.CreatedAtUnix = k.CreatedAtUnix
}

// rotate makes versions in OpenBao up to one.
func (s *story) rotate(latest int) *story { s.says(rotated(latest)); return s }

// probe lets the node observe so many times.
func (s *story) probe(times int) *story {
	s.t.Helper()
	for range times {
		next, _, err := s.registry.Observe(s.metadata, s.rules(), rotationNow.Unix()-60)
		if err != nil {
			s.t.Fatal(err)
		}
		s.registry = next
	}
	return s
}

// promote makes the pending version active.
func (s *story) promote() *story {
	s.t.Helper()
	next, _, err := s.registry.Promote(s.metadata, s.rules(), true, rotationNow.Unix()-30)
	if err != nil {
		s.t.Fatal(err)
	}
	s.registry = next
	return s
}

// unread is OpenBao's metadata not read.
func (s *story) unread() *story {
	s.key, s.metadata, s.upsertDisabled = nil, registry.Metadata{}, nil
	return s
}

// minimums changes OpenBao's.
func (s *story) minimums(decryption, encryption int) *story {
	md := rotated(s.metadata.Latest)
	md.MinDecryption, md.MinEncryption = decryption, encryption
	s.says(md)
	return s
}

// checked is what checks with these ids say when they pass, but for some that
// fail.
func checked(ids []string, failing ...string) []command.Check {
	var all []command.Check
	for _, id := range ids {
		c := command.Check{ID: id, Result: command.Pass}
		for _, row := range table {
			if row.id == id {
				c.Impact = row.impact
			}
		}
		for _, f := range failing {
			if f == id {
				c.Result, c.Reason, c.Message, c.NextStep = command.Fail, "made_up", "found", "do"
			}
		}
		all = append(all, c)
	}
	return all
}

// holdsReport compares a report with testdata/rotation/name.json, and looks for
// what may never be in one.
func holdsReport(t *testing.T, name string, s *exam, r *command.Report) {
	t.Helper()
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range append([]string{"canary"}, keyIDsOf(s)...) {
		if strings.Contains(string(got), word) {
			t.Errorf("the report holds %q:\n%s", word, got)
		}
	}
	file := filepath.Join("testdata", "rotation", name+".json")
	got = append(got, '\n')
	if user := asProvider(); user != "" {
		got = []byte(strings.ReplaceAll(string(got), user, ""))
	}
	if *updateRotation {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("differs from %s; got:\n%s", file, got)
	}
}

func keyIDsOf(e *exam) (ids []string) {
	if e.registry != nil {
		for _, s := range e.registry.Entries() {
			ids = append(ids, s.KeyID)
		}
	}
	return ids
}

// aheadOf is a report's events, a line each.
func aheadOf(r *command.Report) string {
	var b strings.Builder
	for _, event := range r.Rotation.Ahead {
		fmt.Fprintf(&b, "%s [%s]\n", event.What, event.When)
	}
	return b.String()
}
