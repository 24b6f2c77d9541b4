package command

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; got:\n%s", file, got)
	}
}

// text is a report's, in a style.
func text(t *testing.T, r *Report, s Style) string {
	t.Helper()
	var b strings.Builder
	if err := WriteText(&b, r, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextGolden(t *testing.T) {
	for name, r := range reports() {
		golden(t, name+".txt", text(t, r, Style{}))
	}
	for _, name := range []string{"doctor-failing", "rotation-stable", "retirement-plan", "init", "benchmark"} {
		golden(t, name+".narrow.txt", text(t, reports()[name], Style{Width: 60}))
	}
	golden(t, "doctor-failing.color.txt", text(t, failing(), Style{Color: true}))
	golden(t, "rotation-stable.wide.txt", text(t, stable(), Style{Width: 120}))
}

func TestJSONGolden(t *testing.T) {
	kinds := map[string]bool{}
	for name, r := range reports() {
		kinds[r.Kind] = true
		var b bytes.Buffer
		if err := WriteJSON(&b, r); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", b.String())

		// It is one object with nothing beside it, and tells the whole report.
		d := json.NewDecoder(&b)
		d.DisallowUnknownFields()
		var again Report
		if err := d.Decode(&again); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(&again, r) {
			t.Errorf("%s: read again it is %+v", name, again)
		}
		if _, err := d.Token(); err != io.EOF {
			t.Errorf("%s: after the object: %v", name, err)
		}
	}
	for kind := range titles {
		if !kinds[kind] {
			t.Errorf("no golden file for %s", kind)
		}
	}
}

// Lists that are never null are empty lists, and the report itself is left as it
// was.
func TestJSONLists(t *testing.T) {
	r := &Report{Registry: &Registry{}, Transit: &Transit{}, Benchmark: &Benchmark{}}
	var b strings.Builder
	if err := WriteJSON(&b, r.Seal("K")); err != nil {
		t.Fatal(err)
	}
	want := `{
  "apiVersion": "provider.kms.baokms.io/v1alpha1",
  "kind": "K",
  "result": "pass",
  "registry": {
    "generation": 0,
    "stateHash": "",
    "comparedWithTransit": false,
    "snapshots": []
  },
  "transit": {
    "type": "",
    "latestVersion": 0,
    "minDecryptionVersion": 0,
    "minEncryptionVersion": 0,
    "minAvailableVersion": 0,
    "upsertDisabled": null,
    "autoRotateSeconds": 0,
    "versions": []
  },
  "benchmark": {
    "payloadBytes": 0,
    "cpus": 0,
    "rows": []
  }
}
`
	if b.String() != want {
		t.Errorf("got %s", b.String())
	}
	if r.Registry.Snapshots != nil || r.Transit.Versions != nil || r.Benchmark.Rows != nil {
		t.Error("the report was changed")
	}
}

func TestJSONEscapesNoHTML(t *testing.T) {
	var b strings.Builder
	if err := WriteJSON(&b, &Report{Next: []Step{{Text: "a <b> & c"}}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"a <b> & c"`) {
		t.Errorf("got %s", b.String())
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Colour adds nothing but itself, and only marks and headings have it.
func TestColour(t *testing.T) {
	for name, r := range reports() {
		coloured, without := text(t, r, Style{Color: true}), text(t, r, Style{})
		if got := sgr.ReplaceAllString(coloured, ""); got != without {
			t.Errorf("%s: without its colours it is\n%s", name, got)
		}
		for i, line := range strings.Split(strings.TrimSuffix(coloured, "\n"), "\n") {
			painted := sgr.FindAllStringIndex(line, -1)
			if len(painted) == 0 {
				continue
			}
			plain := sgr.ReplaceAllString(line, "")
			whole := len(painted) == 2 && painted[0][0] == 0 && painted[1][1] == len(line)
			mark := regexp.MustCompile(`^(ok|warn|FAIL|skip) `).MatchString(plain) && painted[1][0] <= len("\x1b[1;31mFAIL")
			if len(painted) != 2 || !whole && !mark {
				t.Errorf("%s: line %d is painted: %q", name, i+1, line)
			}
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestUnwritable(t *testing.T) {
	if err := WriteText(broken{}, failing(), Style{}); err != io.ErrClosedPipe {
		t.Errorf("text: %v", err)
	}
	if err := WriteJSON(broken{}, failing()); err != io.ErrClosedPipe {
		t.Errorf("JSON: %v", err)
	}
}
