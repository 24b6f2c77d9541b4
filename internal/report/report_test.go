package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	hash1     = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	hash2     = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA"
	hash3     = "-_CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCs"
	stateHash = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	nextHash  = "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

// passing are all checks, passed.
func passing() []Check {
	bases := []Basis{BasisMetadata, BasisMetadata, BasisMetadata, BasisDeep, BasisState, BasisState, BasisMetadata, BasisMemory, BasisMemory}
	var checks []Check
	for i, id := range CheckIDs {
		checks = append(checks, Check{ID: id, Result: Pass, Basis: bases[i]})
	}
	return checks
}

// healthy is the report of a ready node whose key was rotated and retired once.
func healthy() *NodeReport {
	return &NodeReport{
		APIVersion:  APIVersion,
		Kind:        KindNodeReport,
		GeneratedAt: "2026-11-30T06:15:00Z",
		Provider:    Provider{Name: "openbao-kms-workload-a", Version: "v1.2.3", Fingerprint: "cfg1." + hash1},
		Readiness:   Readiness{Ready: true, Reasons: []string{}},
		ActiveKey:   &Key{hash2, 2},
		Rotation:    Rotation{State: RotationActive},
		Registry:    &Registry{Generation: 7, StateHash: stateHash, Checkpoint: CheckpointConfirmed},
		Snapshots:   []Snapshot{{Key{hash1, 1}, SnapshotRemoved}, {Key{hash2, 2}, SnapshotActive}},
		Preflight:   Preflight{Confidence: ConfidenceLimited, Result: Pass, Checks: passing(), CannotKnow: Limits},
		Observations: Observations{
			Metadata: MetadataObservation{ProbedAt: "2026-11-30T06:14:48Z", ValidatedAt: "2026-11-30T06:14:48Z",
				Seen: &SeenMetadata{At: "2026-11-30T06:14:48Z", LatestVersion: 2, MinDecryptionVersion: 2}},
			DeepProbe: DeepObservation{ProbedAt: "2026-11-30T06:11:00Z", KeyIDHash: hash2},
			State:     StateObservation{ConfirmedAt: "2026-11-30T06:14:48Z"},
		},
	}
}

// rotating is a node with a stable candidate whose save fails.
func rotating() *NodeReport {
	r := healthy()
	r.Readiness.PersistenceDegraded = true
	r.Registry.Checkpoint = CheckpointOutstanding
	r.Rotation = Rotation{RotationPending, &Pending{Key: Key{hash3, 3}, Observations: 3, Required: 3, Stable: true, EstimatedPromotion: "2026-11-30T06:16:30Z"}}
	r.Snapshots = append(r.Snapshots, Snapshot{Key{hash3, 3}, SnapshotPending})
	r.Observations.Metadata.Seen.LatestVersion = 3
	r.Preflight.Result = Warn
	for _, i := range []int{4, 5} {
		r.Preflight.Checks[i].Result = Warn
		r.Preflight.Checks[i].Reason = "state_save_failed"
		r.Preflight.Checks[i].Message = "a save is outstanding"
		r.Preflight.Checks[i].NextStep = "repair the storage"
	}
	return r
}

// starting is a node without a registry whose OpenBao does not answer.
func starting() *NodeReport {
	r := healthy()
	r.Readiness = Readiness{Reasons: []string{"starting", "metadata_read_failed"}, MetadataErrorClass: "openbao_sealed"}
	r.ActiveKey, r.Registry, r.Snapshots = nil, nil, []Snapshot{}
	r.Rotation = Rotation{State: RotationUnknown}
	r.Observations = Observations{Metadata: MetadataObservation{ProbedAt: "2026-11-30T06:14:59Z"}}
	for i := range r.Preflight.Checks {
		r.Preflight.Checks[i].Result = Unknown
		r.Preflight.Checks[i].Reason = "metadata_read_failed"
		r.Preflight.Checks[i].Message = "not looked at"
		r.Preflight.Checks[i].NextStep = "see transit.key"
	}
	r.Preflight.Checks[0].Result = Fail
	r.Preflight.Result = Fail
	return r
}

func plan() *RetirementPlan {
	return &RetirementPlan{APIVersion, KindRetirementPlan, 3, []int{1, 2}, hash3, stateHash, 12, nextHash}
}

func emptyPlan() *RetirementPlan {
	return &RetirementPlan{APIVersion, KindRetirementPlan, 2, []int{}, hash3, stateHash, 1, stateHash}
}

func problem() *Problem {
	return &Problem{APIVersion, KindProblem, "rotation_pending", "Transit version 3 is pending <not \"active\">", "wait"}
}

// golden holds one document against its file, and reads it back from there,
// indented as it is.
func golden[D Document](t *testing.T, name string, d *D) {
	t.Helper()
	doc, err := Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(doc, []byte("\n")) != 1 || !bytes.HasSuffix(doc, []byte("}\n")) {
		t.Errorf("%s: encoded as %q, want one line", name, doc)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, doc, "", "  "); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := indented.String(); got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
	for _, spelling := range [][]byte{doc, want} {
		got, err := Decode[D](spelling)
		if err != nil {
			t.Errorf("%s is not read back: %v", name, err)
		} else if !reflect.DeepEqual(got, d) {
			t.Errorf("%s is read back as\n%+v\nwant\n%+v", name, got, d)
		}
	}
}

func TestGolden(t *testing.T) {
	golden(t, "node-healthy", healthy())
	golden(t, "node-rotating", rotating())
	golden(t, "node-starting", starting())
	golden(t, "plan", plan())
	golden(t, "plan-nothing-to-do", emptyPlan())
	golden(t, "problem", problem())
}

func TestWorst(t *testing.T) {
	for _, c := range []struct {
		results []Result
		want    Result
	}{
		{nil, Unknown},
		{[]Result{Pass, Pass}, Pass},
		{[]Result{Pass, Warn, Pass}, Warn},
		{[]Result{Warn, Unknown, Pass}, Unknown},
		{[]Result{Fail, Unknown, Warn}, Fail},
		{[]Result{Unknown, Fail}, Fail},
	} {
		var checks []Check
		for _, r := range c.results {
			checks = append(checks, Check{Result: r})
		}
		if got := Worst(checks); got != c.want {
			t.Errorf("%v: %s, want %s", c.results, got, c.want)
		}
	}
}

func TestTime(t *testing.T) {
	moment := time.Date(2026, 11, 30, 7, 15, 0, 999_999_999, time.FixedZone("elsewhere", 3600))
	if got := At(moment); got != "2026-11-30T06:15:00Z" {
		t.Errorf("At is %s", got)
	}
	if got := At(time.Time{}); got != "" {
		t.Errorf("At of no time is %q", got)
	}
	if got, ok := Time("2026-11-30T06:15:00Z").Time(); !ok || !got.Equal(moment.Truncate(time.Second)) {
		t.Errorf("Time is %v, %v", got, ok)
	}
	for _, bad := range []Time{"", "2026-11-30", "2026-11-30T06:15:00+00:00", "2026-11-30T07:15:00+01:00", "2026-11-30T06:15:00.5Z", "2026-11-30t06:15:00z",
		"2026-13-30T06:15:00Z", "2026-02-30T06:15:00Z", "2026-11-30T24:15:00Z", " 2026-11-30T06:15:00Z", "2026-11-30T06:15:00Z ", "0001-01-01T00:00:00Z", "12026-11-30T06:15:00Z"} {
		if got, ok := bad.Time(); ok {
			t.Errorf("%q is taken for %v", bad, got)
		}
	}
}

// TestPlainTypes: what a consumer declares a schema for is made of strings,
// numbers, booleans, lists and structs, so that it can generate one.
func TestPlainTypes(t *testing.T) {
	var walk func(at string, typ reflect.Type)
	walk = func(at string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(at, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				tag := f.Tag.Get("json")
				if f.Anonymous {
					if tag != ",inline" { // for the schema's generator; encoding/json needs none
						t.Errorf("%s embeds %s under a name", at, f.Name)
					}
				} else if name, _, _ := strings.Cut(tag, ","); name == "" || name[0] < 'a' || name[0] > 'z' || strings.ContainsAny(name, "_-") {
					t.Errorf("%s.%s has the JSON name %q", at, f.Name, name)
				}
				walk(at+"."+f.Name, f.Type)
			}
		case reflect.String, reflect.Bool, reflect.Int, reflect.Uint64:
		default:
			t.Errorf("%s is a %s", at, typ)
		}
	}
	for _, d := range []any{NodeReport{}, RetirementPlan{}, Problem{}} {
		walk(reflect.TypeOf(d).Name(), reflect.TypeOf(d))
	}
}
