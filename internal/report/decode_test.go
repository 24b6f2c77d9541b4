package report

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refused decodes a document that must be refused, with words of the error.
func refused[D Document](t *testing.T, doc []byte, words string) {
	t.Helper()
	d, err := Decode[D](doc)
	switch {
	case err == nil:
		t.Errorf("accepted:\n%s", doc)
	case d != nil:
		t.Errorf("an error and a document")
	case !strings.Contains(err.Error(), words) || !strings.HasPrefix(err.Error(), "report: "):
		t.Errorf("error %q, want %q", err, words)
	}
}

func encoded[D Document](t testing.TB, d *D) []byte {
	t.Helper()
	doc, err := Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestDecodeSpelling: one document has one spelling, but for white space.
func TestDecodeSpelling(t *testing.T) {
	doc := string(encoded(t, problem()))
	replace := func(old, new string) []byte {
		t.Helper()
		if !strings.Contains(doc, old) {
			t.Fatalf("%s does not hold %s", doc, old)
		}
		return []byte(strings.Replace(doc, old, new, 1))
	}
	cases := []struct {
		name  string
		doc   []byte
		words string
	}{
		{"nothing", nil, "is not JSON at byte 0"},
		{"null", []byte("null"), "apiVersion is not report.baokms/v1"},
		{"a list", []byte("[]"), "is not a JSON object"},
		{"empty object", []byte("{}"), "apiVersion"},
		{"cut off", []byte(doc[:len(doc)-3]), "is not JSON at byte"},
		{"two documents", []byte(doc + doc), "is not JSON at byte"},
		{"trailing text", []byte(doc + "x"), "is not JSON at byte"},
		{"another version", replace("report.baokms/v1", "report.baokms/v2"), "update the manager first"},
		{"another kind", replace(KindProblem, KindNodeReport), "kind is not Problem"},
		{"unknown field", replace(`"reason"`, `"more":1,"reason"`), "a field that v1 does not know"},
		{"wrong type", replace(`"rotation_pending"`, `7`), "field reason of the wrong type"},
		{"field twice", replace(`"reason"`, `"reason":"other","reason"`), "fields twice"},
		{"field in capitals", replace(`"reason"`, `"Reason"`), "another order or spelling"},
		{"another order", replace(`"apiVersion":"report.baokms/v1","kind":"Problem"`, `"kind":"Problem","apiVersion":"report.baokms/v1"`), "another order"},
		{"escaped", replace("rotation_pending", `rotation_pendin\u0067`), "another order or spelling"},
		{"not UTF-8", replace("wait", "\xff"), "another order or spelling"},
		{"too large", append([]byte(doc), bytes.Repeat([]byte(" "), MaxSize)...), "larger than 1048576 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { refused[Problem](t, c.doc, c.words) })
	}
	for _, accepted := range []string{doc, strings.TrimSuffix(doc, "\n"), " \t\r\n" + strings.Replace(doc, ":", " : ", 1) + "\n\n"} {
		if _, err := Decode[Problem]([]byte(accepted)); err != nil {
			t.Errorf("%q: %v", accepted, err)
		}
	}
	refused[NodeReport](t, encoded(t, plan()), "kind is not NodeReport")
	refused[RetirementPlan](t, encoded(t, healthy()), "kind is not RetirementPlan")
	refused[NodeReport](t, bytes.Replace(encoded(t, healthy()), []byte(`"snapshots":[`), []byte(`"snapshots":null,"x":[`), 1), "v1 does not know")
}

// wrong is a change that breaks a document.
type wrong[D Document] struct {
	name  string
	spoil func(*D)
	words string
}

func refuseAll[D Document](t *testing.T, good func() *D, cases []wrong[D]) {
	t.Helper()
	if _, err := Decode[D](encoded(t, good())); err != nil {
		t.Fatalf("the document before any change: %v", err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := good()
			c.spoil(d)
			refused[D](t, encoded(t, d), c.words)
		})
	}
}

func TestDecodeRefusesANodeReport(t *testing.T) {
	type r = NodeReport
	refuseAll(t, rotating, []wrong[r]{
		{"no time", func(d *r) { d.GeneratedAt = "" }, "generatedAt"},
		{"time in another zone", func(d *r) { d.GeneratedAt = "2026-11-30T07:15:00+01:00" }, "generatedAt"},
		{"no name", func(d *r) { d.Provider.Name = "" }, "provider.name"},
		{"two lines of name", func(d *r) { d.Provider.Name = "a\nb" }, "provider.name"},
		{"long name", func(d *r) { d.Provider.Name = strings.Repeat("n", 1025) }, "provider.name"},
		{"no version", func(d *r) { d.Provider.Version = "" }, "provider.version"},
		{"version with a space", func(d *r) { d.Provider.Version = "v1 beta" }, "provider.version"},
		{"fingerprint of another kind", func(d *r) { d.Provider.Fingerprint = "cfg2." + hash1 }, "provider.fingerprint"},
		{"fingerprint with trailing bits", func(d *r) { d.Provider.Fingerprint = "cfg1." + hash1[:42] + "B" }, "provider.fingerprint"},

		{"ready with a reason", func(d *r) { d.Readiness.Reasons = []string{"starting"} }, "readiness.ready does not fit"},
		{"unready without a reason", func(d *r) { d.Readiness.Ready = false }, "readiness.ready does not fit"},
		{"reasons null", func(d *r) { d.Readiness.Reasons = nil }, "readiness.reasons are null"},
		{"reason with a space", func(d *r) { d.Readiness.Ready, d.Readiness.Reasons = false, []string{"no way"} }, "what is not a code"},
		{"reason twice", func(d *r) { d.Readiness.Ready, d.Readiness.Reasons = false, []string{"a", "b", "a"} }, "hold one twice"},
		{"many reasons", func(d *r) {
			d.Readiness.Ready, d.Readiness.Reasons = false, strings.Split(strings.Repeat("a ", 65)+"a", " ")
		}, "too many"},
		{"stale and ready", func(d *r) { d.Readiness.Stale = true }, "although it is stale"},
		{"error class with a path", func(d *r) { d.Readiness.MetadataErrorClass = "transit/keys" }, "metadataErrorClass"},
		{"deep error class in capitals", func(d *r) { d.Readiness.DeepErrorClass = "TIMEOUT" }, "deepErrorClass"},

		{"no registry", func(d *r) { d.Registry = nil }, "without registry"},
		{"no active key", func(d *r) { d.ActiveKey = nil }, "without activeKey"},
		{"generation 0", func(d *r) { d.Registry.Generation = 0 }, "registry.generation"},
		{"generation that no integer holds", func(d *r) { d.Registry.Generation = 1 << 63 }, "registry.generation"},
		{"state hash cut", func(d *r) { d.Registry.StateHash = stateHash[:70] }, "registry.stateHash"},
		{"state hash in capitals", func(d *r) { d.Registry.StateHash = strings.ToUpper(stateHash) }, "registry.stateHash"},
		{"no checkpoint", func(d *r) { d.Registry.Checkpoint = "" }, "registry.checkpoint"},

		{"snapshots null", func(d *r) { d.Snapshots = nil }, "snapshots are null"},
		{"snapshot state unknown", func(d *r) { d.Snapshots[0].State = "held" }, "state that is not one of v1"},
		{"versions descend", func(d *r) { d.Snapshots[0], d.Snapshots[1] = d.Snapshots[1], d.Snapshots[0] }, "do not ascend"},
		{"version 0", func(d *r) { d.Snapshots[0].TransitVersion = 0 }, "do not ascend"},
		{"version out of bounds", func(d *r) { d.Snapshots[2].TransitVersion = 1 << 40; d.Rotation.Pending.TransitVersion = 1 << 40 }, "out of bounds"},
		{"key_id in the clear", func(d *r) { d.Snapshots[0].KeyIDHash = "obk2." + hash1[5:] }, "malformed keyIdHash"},
		{"hash with trailing bits", func(d *r) { d.Snapshots[0].KeyIDHash = hash1[:42] + "B" }, "malformed keyIdHash"},
		{"one hash twice", func(d *r) { d.Snapshots[0].KeyIDHash = hash2 }, "one keyIdHash twice"},
		{"none active", func(d *r) { d.Snapshots[1].State = SnapshotRetired }, "activeKey is not the one active snapshot"},
		{"two active", func(d *r) { d.Snapshots[0].State = SnapshotActive }, "activeKey is not the one active snapshot"},
		{"another active", func(d *r) { d.ActiveKey.KeyIDHash = hash1 }, "activeKey is not the one active snapshot"},
		{"active of another version", func(d *r) { d.ActiveKey.TransitVersion = 1 }, "activeKey is not the one active snapshot"},
		{"another pending", func(d *r) { d.Rotation.Pending.KeyIDHash = hash1 }, "rotation.pending is not the one pending snapshot"},
		{"nothing pending", func(d *r) { d.Rotation.Pending = nil }, "rotation.pending is not the one pending snapshot"},
		{"no snapshot pending", func(d *r) { d.Snapshots[2].State = SnapshotRetired }, "rotation.pending is not the one pending snapshot"},

		{"state active while pending", func(d *r) { d.Rotation.State = RotationActive }, "rotation.state does not fit"},
		{"state unknown with a registry", func(d *r) { d.Rotation.State = RotationUnknown }, "rotation.state does not fit"},
		{"pending below active", func(d *r) {
			d.Snapshots[1].State, d.Snapshots[2].State = SnapshotPending, SnapshotActive
			d.ActiveKey, d.Rotation.Pending.Key = &Key{hash3, 3}, Key{hash2, 2}
		}, "not above the active version"},
		{"observations negative", func(d *r) { d.Rotation.Pending.Observations = -1 }, "pending.observations"},
		{"none required", func(d *r) { d.Rotation.Pending.Required = 0 }, "pending.required"},
		{"stable too early", func(d *r) { d.Rotation.Pending.Observations = 2 }, "too few observations"},
		{"countdown of what is not stable", func(d *r) { d.Rotation.Pending.Stable = false }, "not stable"},
		{"countdown without a time", func(d *r) { d.Rotation.Pending.EstimatedPromotion = "soon" }, "estimatedPromotion is not a time"},

		{"another confidence", func(d *r) { d.Preflight.Confidence = "full" }, "confidence is not limited"},
		{"better result than its checks", func(d *r) { d.Preflight.Result = Pass }, "not the worst"},
		{"no limits", func(d *r) { d.Preflight.CannotKnow = nil }, "cannotKnow is empty"},
		{"empty limit", func(d *r) { d.Preflight.CannotKnow = []string{""} }, "cannotKnow holds"},
		{"a check is missing", func(d *r) { d.Preflight.Checks = d.Preflight.Checks[1:] }, "no check transit.key"},
		{"a check twice", func(d *r) { d.Preflight.Checks = append(d.Preflight.Checks, d.Preflight.Checks[0]) }, "an id twice"},
		{"check without an id", func(d *r) { d.Preflight.Checks[0].ID = "" }, "malformed id"},
		{"check with an unknown result", func(d *r) { d.Preflight.Checks[0].Result = "ok" }, "a result that is not one of v1"},
		{"check without a basis", func(d *r) { d.Preflight.Checks[0].Basis = "" }, "a basis that is not one of v1"},
		{"a pass with a reason", func(d *r) { d.Preflight.Checks[0].Reason = "good" }, "a reason for a pass"},
		{"a warning without a reason", func(d *r) { d.Preflight.Checks[4].Reason = "" }, "not a code"},
		{"a warning without a next step", func(d *r) { d.Preflight.Checks[4].NextStep = "" }, "not a line of text"},
		{"a message of two lines", func(d *r) { d.Preflight.Checks[4].Message = "a\r\nb" }, "not a line of text"},
		{"a long message", func(d *r) { d.Preflight.Checks[4].Message = strings.Repeat("m", 2049) }, "not a line of text"},
		{"many checks", func(d *r) { d.Preflight.Checks = make([]Check, 65) }, "too many entries"},

		{"probed in the future", func(d *r) { d.Observations.Metadata.ProbedAt = "2026-11-30T06:15:01Z" }, "a time after generatedAt"},
		{"seen in the future", func(d *r) { d.Observations.Metadata.Seen.At = "2027-01-01T00:00:00Z" }, "a time after generatedAt"},
		{"validated before it was probed", func(d *r) { d.Observations.Metadata.ValidatedAt = "2026-11-30T06:14:49Z" }, "validatedAt is after probedAt"},
		{"ready and never validated", func(d *r) { d.Observations.Metadata.ValidatedAt = "" }, "ready without observations"},
		{"ready and never proved", func(d *r) { d.Observations.DeepProbe = DeepObservation{} }, "ready without observations"},
		{"proved at no time", func(d *r) {
			d.Readiness.Ready, d.Readiness.Reasons = false, []string{"x"}
			d.Observations.DeepProbe.ProbedAt = ""
		}, "deepProbe has one of"},
		{"proved something else", func(d *r) { d.Observations.DeepProbe.KeyIDHash = "obk2.x" }, "deepProbe.keyIdHash"},
		{"confirmed at some time", func(d *r) { d.Observations.State.ConfirmedAt = "10 o'clock" }, "what is not a time"},
		{"seen without a time", func(d *r) { d.Observations.Metadata.Seen.At = "" }, "seen.at is not a time"},
		{"seen version 0", func(d *r) { d.Observations.Metadata.Seen.LatestVersion = 0 }, "latestVersion"},
		{"minimum negative", func(d *r) { d.Observations.Metadata.Seen.MinAvailableVersion = -1 }, "minimum out of bounds"},
	})
	refuseAll(t, starting, []wrong[r]{
		{"ready without a registry", func(d *r) { d.Readiness = Readiness{Ready: true, Reasons: []string{}} }, "ready without registry"},
		{"a key without a registry", func(d *r) { d.ActiveKey = &Key{hash1, 1} }, "activeKey is there without registry"},
		{"snapshots without a registry", func(d *r) { d.Snapshots = []Snapshot{{Key{hash1, 1}, SnapshotActive}} }, "snapshots are there without registry"},
		{"active without a registry", func(d *r) { d.Rotation.State = RotationActive }, "rotation.state does not fit"},
	})
}

func TestDecodeRefusesAPlan(t *testing.T) {
	type p = RetirementPlan
	refuseAll(t, plan, []wrong[p]{
		{"before version 1", func(d *p) { d.BeforeVersion = 1 }, "beforeVersion"},
		{"before a huge version", func(d *p) { d.BeforeVersion = 1 << 31 }, "beforeVersion"},
		{"removes what stays", func(d *p) { d.RemovedVersions = []int{1, 3} }, "removedVersions do not ascend"},
		{"removes version 0", func(d *p) { d.RemovedVersions = []int{0, 1} }, "removedVersions do not ascend"},
		{"removes one twice", func(d *p) { d.RemovedVersions = []int{1, 1} }, "removedVersions do not ascend"},
		{"descends", func(d *p) { d.RemovedVersions = []int{2, 1} }, "removedVersions do not ascend"},
		{"null", func(d *p) { d.RemovedVersions = nil }, "removedVersions are null"},
		{"removes nothing and changes the state", func(d *p) { d.RemovedVersions = []int{} }, "nextStateHash does not fit"},
		{"removes something and changes nothing", func(d *p) { d.NextStateHash = d.StateHash }, "nextStateHash does not fit"},
		{"makes the first generation", func(d *p) { d.NextGeneration = 1 }, "nextGeneration does not fit"},
		{"generation 0", func(d *p) { d.NextGeneration = 0 }, "nextGeneration is out of bounds"},
		{"key_id in the clear", func(d *p) { d.ActiveKeyIDHash = "obk2." + hash1 }, "activeKeyIdHash"},
		{"state hash of another kind", func(d *p) { d.StateHash = "md5:" + stateHash[7:] }, "stateHash"},
		{"next state hash empty", func(d *p) { d.NextStateHash = "" }, "nextStateHash is malformed"},
	})
}

func TestDecodeRefusesAProblem(t *testing.T) {
	type p = Problem
	refuseAll(t, problem, []wrong[p]{
		{"no reason", func(d *p) { d.Reason = "" }, "reason is not a code"},
		{"long reason", func(d *p) { d.Reason = strings.Repeat("r", 65) }, "reason is not a code"},
		{"no message", func(d *p) { d.Message = "" }, "message is empty"},
		{"message with a control character", func(d *p) { d.Message = "a\x1b[2Jb" }, "message is empty"},
		{"no next step", func(d *p) { d.NextStep = "" }, "nextStep is empty"},
	})
}

// TestErrorsQuoteNothing: a document may come from anywhere, and its errors go
// to a log.
func TestErrorsQuoteNothing(t *testing.T) {
	const canary = "hvs.CANARY"
	doc := string(encoded(t, rotating()))
	for _, old := range []string{`"apiVersion"`, `"openbao-kms-workload-a"`, `"` + hash2 + `"`, `"confirmed"`, `"transit.key"`, `7`, `true`, `"warn"`, `"repair the storage"`} {
		if _, err := Decode[NodeReport]([]byte(strings.Replace(doc, old, `"`+canary+`\n"`, 1))); err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("in place of %s: %v", old, err)
		}
	}
}

// FuzzDecode: whatever comes over the socket, Decode does not panic, keeps its
// bounds, and what it accepts is what Encode writes and holds together.
func FuzzDecode(f *testing.F) {
	for _, d := range []*NodeReport{healthy(), rotating(), starting()} {
		f.Add(encoded(f, d))
	}
	f.Add(encoded(f, plan()))
	f.Add(encoded(f, emptyPlan()))
	f.Add(encoded(f, problem()))
	f.Fuzz(func(t *testing.T, doc []byte) {
		given := bytes.Clone(doc)
		if r := accepts[NodeReport](t, doc); r != nil {
			if (r.Registry == nil) != (r.ActiveKey == nil) || r.Readiness.Ready && r.ActiveKey == nil || len(r.Preflight.Checks) < len(CheckIDs) {
				t.Fatalf("accepted %+v", r)
			}
			for _, c := range r.Preflight.Checks {
				if r.Preflight.Result == Pass && c.Result != Pass {
					t.Fatalf("passed with %+v", c)
				}
			}
		}
		if p := accepts[RetirementPlan](t, doc); p != nil && !slices.IsSorted(p.RemovedVersions) {
			t.Fatalf("accepted %+v", p)
		}
		accepts[Problem](t, doc)
		if !bytes.Equal(given, doc) {
			t.Fatal("the document was changed")
		}
	})
}

func accepts[D Document](t *testing.T, doc []byte) *D {
	t.Helper()
	d, err := Decode[D](doc)
	if err != nil {
		if d != nil || len(err.Error()) > 400 {
			t.Fatalf("document %v and error %q", d, err)
		}
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc); err != nil || len(doc) > MaxSize {
		t.Fatalf("accepted what is not JSON or too long: %v", err)
	}
	if again := encoded(t, d); string(again) != compact.String()+"\n" {
		t.Fatalf("accepted\n%s\nwhich is written as\n%s", compact.Bytes(), again)
	}
	return d
}

// TestPure: the package imports the standard library only, does no I/O and reads
// no clock; of the time package it uses what writes and reads a moment.
func TestPure(t *testing.T) {
	allowed := []string{"bytes", "encoding/json", "errors", "fmt", "math", "slices", "strings", "time", "unicode", "unicode/utf8"}
	ofTime := []string{"Time", "Parse"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", file.Name(), path)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && !slices.Contains(ofTime, s.Sel.Name) {
					t.Errorf("%s uses time.%s", file.Name(), s.Sel.Name)
				}
			}
			return true
		})
	}
}
