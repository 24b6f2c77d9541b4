package registry_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/registry"
)

// sound is a document with a snapshot in each state that transitions make.
func sound(t testing.TB) []byte {
	t.Helper()
	return seal(t, soundBody())
}

func soundBody() string {
	return unsealed(7, previous, snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Active), snapshot(4, registry.Retired), pending(5, 3))
}

func TestDecodeRoundTrip(t *testing.T) {
	retired := pending(2, 1)
	retired.State = registry.Retired
	cases := map[string][]byte{
		"golden":           golden(t),
		"first generation": seal(t, unsealed(1, "", snapshot(1, registry.Active))),
		"last generation":  seal(t, unsealed(1<<64-1, previous, snapshot(1, registry.Active))),
		"pending":          seal(t, unsealed(2, previous, snapshot(1, registry.Active), pending(2, 0))),
		"superseded":       seal(t, unsealed(3, previous, snapshot(1, registry.Active), retired, pending(3, 1))),
		"rejected is read": seal(t, unsealed(3, previous, snapshot(1, registry.Active), snapshot(2, registry.Rejected))),
		"gaps":             seal(t, unsealed(3, previous, snapshot(4, registry.Active), pending(9, 2))),
	}
	for name, doc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := registry.Decode(doc)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(r.Encode(), doc) {
				t.Errorf("read\n%s\nwrote\n%s", doc, r.Encode())
			}
			if stated := fmt.Sprintf("\"hash\": %q", r.Hash()); !bytes.Contains(doc, []byte(stated)) || !registry.IsHash(r.Hash()) {
				t.Errorf("hash is %s, which the document does not state", r.Hash())
			}
			if r.Fingerprint() != fingerprint || r.Scope() != scope {
				t.Errorf("fingerprint %s, scope %+v", r.Fingerprint(), r.Scope())
			}
		})
	}
}

func golden(t testing.TB) []byte {
	t.Helper()
	doc, err := os.ReadFile("testdata/document.json")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestDecodedContent(t *testing.T) {
	r, err := registry.Decode(golden(t))
	if err != nil {
		t.Fatal(err)
	}
	wantSnapshots(t, r, snapshot(1, registry.Removed), snapshot(2, registry.Retired), snapshot(3, registry.Active), snapshot(4, registry.Retired), pending(5, 3))
	if r.Generation() != 7 || r.PreviousHash() != previous {
		t.Errorf("generation %d after %s", r.Generation(), r.PreviousHash())
	}
	if r.Active().TransitVersion != 3 || r.Pending().TransitVersion != 5 {
		t.Errorf("version %d is active, %d pending", r.Active().TransitVersion, r.Pending().TransitVersion)
	}
	decrypts := map[int]bool{1: false, 2: true, 3: true, 4: true, 5: true}
	for v, want := range decrypts {
		keyID := scope.KeyID(v, created(v))
		e, ok := r.Lookup(keyID)
		if !ok || e.TransitVersion != v || e.Decrypts() != want {
			t.Fatalf("version %d: found %v, entry %+v, want decryption %v", v, ok, e, want)
		}
		if e.Binding.KeyID() != keyID || e.Binding.Version() != v || e.Binding.CreatedAtUnix() != created(v) {
			t.Errorf("version %d is bound to version %d created %d", v, e.Binding.Version(), e.Binding.CreatedAtUnix())
		}
	}
	if _, ok := r.Lookup(scope.KeyID(6, created(6))); ok {
		t.Error("an identity that was never accepted is found")
	}
	if _, ok := r.Lookup(scope.KeyID(3, created(4))); ok {
		t.Error("a version with another creation time is found")
	}
}

// A file that a crash cut short, at whatever byte, is no registry.
func TestDecodeTruncated(t *testing.T) {
	doc := sound(t)
	for n := range len(doc) {
		if r, err := registry.Decode(doc[:n]); err == nil {
			t.Fatalf("cut after %d of %d bytes, it is read as generation %d", n, len(doc), r.Generation())
		}
	}
}

// No single damaged bit goes unnoticed, wherever it is.
func TestDecodeFlipped(t *testing.T) {
	doc := seal(t, unsealed(1, "", snapshot(1, registry.Active)))
	for i := range doc {
		for bit := range 8 {
			damaged := bytes.Clone(doc)
			damaged[i] ^= 1 << bit
			if _, err := registry.Decode(damaged); err == nil {
				t.Fatalf("bit %d of byte %d flipped (%q), and it is read", bit, i, damaged[max(0, i-20):min(len(doc), i+20)])
			}
		}
	}
}

// Documents that say what a sound registry says, under its right hash, but do
// not spell it in the one canonical way; and documents that are none at all.
func TestDecodeRefusesSpelling(t *testing.T) {
	const (
		changed   = "does not have the hash that it states"
		canonical = "is not in its canonical form"
		unknown   = "has a field that this version does not know"
		cut       = "is not a complete JSON document"
		schema    = "has another schema than keyregistry.baokms/v1"
	)
	text := string(sound(t))
	edit := func(old, new string) string {
		t.Helper()
		edited := strings.Replace(text, old, new, 1)
		if edited == text {
			t.Fatalf("the document does not hold %q", old)
		}
		return edited
	}
	wrongType := func(field string) string { return "has a field " + field + " of the wrong type" }
	cases := []struct{ name, doc, words string }{
		{"empty", "", cut},
		{"white space", " \n", cut},
		{"null", "null", schema},
		{"a list", "[]", "is not a JSON object"},
		{"a string", `"registry"`, "is not a JSON object"},
		{"an empty object", "{}\n", schema},
		{"not JSON", "schema: keyregistry.baokms/v1\n", "is not JSON at byte 1"},
		{"NUL bytes after a crash", strings.Repeat("\x00", 900), "is not JSON at byte 1"},
		{"nested too deep", strings.Repeat("[", 20000), "is not JSON at byte 10001"},
		{"byte order mark", "\ufeff" + text, "is not JSON at byte 1"},
		{"another schema", string(seal(t, strings.Replace(soundBody(), "baokms/v1", "baokms/v2", 1))), schema},
		{"unknown field", edit(`  "generation"`, `  "comment": "", "generation"`), unknown},
		{"unknown field in a snapshot", edit(`"state"`, `"note": 1, "state"`), unknown},
		{"unknown field in the scope", edit(`"clusterId"`, `"zone": "b", "clusterId"`), unknown},
		{"raw mount path", edit(`"clusterId"`, `"mountPath": "transit", "clusterId"`), unknown},
		{"duplicate field", edit(`"generation": 7,`, `"generation": 7, "generation": 7,`), canonical},
		{"duplicate field with another value first", edit(`"generation": 7,`, `"generation": 6, "generation": 7,`), canonical},
		{"duplicate field with another value last", edit(`"generation": 7,`, `"generation": 7, "generation": 6,`), changed},
		{"duplicate field in a snapshot", edit(`"stableObservations": 3,`, `"stableObservations": 1, "stableObservations": 3,`), canonical},
		{"duplicate hash", edit(`"hash"`, `"hash": "", "hash"`), canonical},
		{"duplicate list of snapshots", edit(`"snapshots"`, `"snapshots": [], "snapshots"`), canonical},
		{"field in other letters", edit(`"generation"`, `"Generation"`), canonical},
		{"field of value 0 missing", edit(`      "stableObservations": 0,`+"\n", ""), canonical},
		{"null where 0 belongs", edit(`"stableObservations": 0`, `"stableObservations": null`), canonical},
		{"generation is text", edit(`"generation": 7`, `"generation": "7"`), wrongType("generation")},
		{"generation is negative", edit(`"generation": 7`, `"generation": -7`), wrongType("generation")},
		{"generation is a fraction", edit(`"generation": 7`, `"generation": 7.5`), wrongType("generation")},
		{"generation has an exponent", edit(`"generation": 7`, `"generation": 7e0`), wrongType("generation")},
		{"generation above 64 bits", edit(`"generation": 7`, `"generation": 18446744073709551616`), wrongType("generation")},
		{"version is text", edit(`"transitVersion": 2`, `"transitVersion": "2"`), wrongType("snapshots.transitVersion")},
		{"state is a number", edit(`"state": "active"`, `"state": 1`), wrongType("snapshots.state")},
		{"scope is text", edit(`"scope": {`, `"scope": "", "scope": {`), wrongType("scope")},
		{"snapshots is an object", edit(`"snapshots": [`, `"snapshots": {}, "snapshots": [`), wrongType("snapshots")},
		{"escaped letters", edit(`workload-a`, `\u0077orkload-a`), canonical},
		{"fields in another order", edit(`"state": "active",`+"\n"+`      "aadMode": "aad.required",`, `"aadMode": "aad.required",`+"\n"+`      "state": "active",`), canonical},
		{"trailing document", text + text, canonical},
		{"trailing brace", text + "}", canonical},
		{"trailing newline", text + "\n", canonical},
		{"trailing NUL", text + "\x00", canonical},
		{"no newline at the end", strings.TrimSuffix(text, "\n"), canonical},
		{"leading white space", "\n" + text, canonical},
		{"indented with tabs", strings.ReplaceAll(text, "  ", "\t"), canonical},
		{"in one line", strings.Join(strings.Fields(text), ""), canonical},
		{"carriage returns", strings.ReplaceAll(text, "\n", "\r\n"), canonical},
		{"no hash", soundBody(), changed},
		{"empty hash", edit(`"hash": "`+hashOf(text)+`"`, `"hash": ""`), changed},
		{"another hash", edit(hashOf(text), previous), changed},
		{"hash in capitals", edit(hashOf(text), "sha256:"+strings.ToUpper(hashOf(text)[len("sha256:"):])), changed},
		{"count edited", edit(`"stableObservations": 3`, `"stableObservations": 2`), changed},
		{"generation edited", edit(`"generation": 7`, `"generation": 8`), changed},
		{"larger than a mebibyte", text + strings.Repeat(" ", 1<<20-len(text)+1), "is larger than 1048576 bytes"},
		{"exactly a mebibyte", text + strings.Repeat(" ", 1<<20-len(text)), canonical},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wantRefused(t, []byte(c.doc), c.words)
		})
	}
}

// hashOf is the hash that a document states.
func hashOf(doc string) string {
	_, after, _ := strings.Cut(doc, `"hash": "`)
	hash, _, _ := strings.Cut(after, `"`)
	return hash
}

// wantRefused checks that a document is refused in these words and that the
// refusal gives away nothing that is in it.
func wantRefused(t *testing.T, doc []byte, words string) {
	t.Helper()
	r, err := registry.Decode(doc)
	if err == nil {
		t.Fatalf("read as generation %d:\n%.2000s", r.Generation(), doc)
	}
	if !strings.Contains(err.Error(), words) {
		t.Errorf("error is %q, want %q", err, words)
	}
	for _, quoted := range []string{"workload-a", "obk2.", "01HXEXAMPLE", "transit-prod", "cfg1."} {
		if strings.Contains(err.Error(), quoted) {
			t.Errorf("error quotes the document: %v", err)
		}
	}
}
