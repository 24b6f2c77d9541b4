package command

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestWords(t *testing.T) {
	cases := []struct {
		text string
		want []string
	}{
		{"", nil},
		{" \t\n ", nil},
		{"one  two\nthree", []string{"one", "two", "three"}},
		{"run 'a b c' now", []string{"run", "'a b c'", "now"}},
		{"run `a  b`, then", []string{"run", "`a b`,", "then"}},
		{"see (or run 'a b').", []string{"see", "(or", "run", "'a b')."}},
		{"('a b')", []string{"('a b')"}},
		{"'a'", []string{"'a'"}},
		{"the node's key, the nodes' keys", []string{"the", "node's", "key,", "the", "nodes'", "keys"}},
		{"an 'open quotation stays words", []string{"an", "'open", "quotation", "stays", "words"}},
		{"a ' b", []string{"a", "'", "b"}},
		{"clear\x1b[2J\x00 \u202egnp \xff \u0085 \u00a0x", []string{`clear\x1b[2J\x00`, `\u202egnp`, `\xff`, "x"}},
		{"größe \ufffd", []string{"größe", "\ufffd"}},
	}
	for _, c := range cases {
		if got := words(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFill(t *testing.T) {
	cases := []struct {
		name               string
		width, first, hang int
		words              string
		want               []string
	}{
		{"nothing", 10, 4, 2, "", []string{""}},
		{"exactly the width", 10, 4, 2, "aaa bb", []string{"aaa bb"}},
		{"one more", 10, 4, 2, "aaa bbb", []string{"aaa", "bbb"}},
		{"the hanging lines are longer", 10, 6, 2, "aaaa bbb ccc dd", []string{"aaaa", "bbb ccc", "dd"}},
		{"a word too long for the first line", 10, 6, 2, "aaaaaaaa b", []string{"", "aaaaaaaa", "b"}},
		{"a word too long for any, behind its lead", 10, 4, 4, "aaaaaaaaaaaa b", []string{"aaaaaaaaaaaa", "b"}},
		{"a word too long for any, in the middle", 10, 0, 2, "a bbbbbbbbbbbb c", []string{"a", "bbbbbbbbbbbb", "c"}},
		{"letters are counted, not bytes", 5, 0, 0, "äöüßé a", []string{"äöüßé", "a"}},
	}
	for _, c := range cases {
		if got := fill(c.width, c.first, c.hang, strings.Fields(c.words)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestVisibleCommand(t *testing.T) {
	if got, want := Visible("echo a  b\n\trm\x1b x\r"), `echo a  b\n\trm\x1b x\x0d`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSummary(t *testing.T) {
	cases := map[string][]Result{
		"1 check: 1 ok":                                  {Pass},
		"2 checks: 2 warnings":                           {Warn, Warn},
		"2 checks: 1 failed, 1 skipped":                  {Skip, Fail},
		"6 checks: 1 ok, 1 warning, 2 failed, 2 skipped": {Pass, Warn, Fail, Skip, Fail, Skip},
		"3 checks: 1 ok":                                 {Pass, "odd", "odd"}, // a result that nobody knows is not counted as anything
	}
	for want, results := range cases {
		var checks []Check
		for _, r := range results {
			checks = append(checks, Check{ID: "a.b", Result: r})
		}
		if got := summary(checks); got != want {
			t.Errorf("%v: got %q, want %q", results, got, want)
		}
	}
}

func TestWorst(t *testing.T) {
	cases := []struct {
		results []Result
		want    Result
	}{
		{nil, Pass}, {[]Result{Pass, Skip}, Pass}, {[]Result{Skip}, Pass}, {[]Result{Pass, Warn, Skip}, Warn}, {[]Result{Warn, Fail, Pass}, Fail},
	}
	for _, c := range cases {
		r := &Report{}
		for _, result := range c.results {
			r.Checks = append(r.Checks, Check{Result: result})
		}
		if r.Seal(KindDoctor); r.Result != c.want || r.Kind != KindDoctor || r.APIVersion != APIVersion {
			t.Errorf("%v: got %+v, want %s", c.results, r, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	latencies := map[int64]string{0: "0us", 999: "999us", 1000: "1.00ms", 9994: "9.99ms", 9995: "10.0ms", 99_949: "99.9ms", 99_950: "100ms", 999_499: "999ms", 999_500: "1.00s", 12_345_678: "12.35s"}
	for micros, want := range latencies {
		if got := latency(micros); got != want {
			t.Errorf("%d: got %s, want %s", micros, got, want)
		}
	}
	for perSecond, want := range map[float64]string{0: "0.0", 99.94: "99.9", 100: "100", 12345.6: "12346"} {
		if got := rate(perSecond); got != want {
			t.Errorf("%v: got %s, want %s", perSecond, got, want)
		}
	}
}

func TestChangeTitles(t *testing.T) {
	cases := []struct {
		c      Change
		result Result
		want   string
	}{
		{Change{StateHash: "a", NextStateHash: "b"}, Pass, "Change: planned, nothing was changed"},
		{Change{StateHash: "a", NextStateHash: "b"}, Fail, "Change: refused, nothing was changed"},
		{Change{StateHash: "a", NextStateHash: "a"}, Warn, "Change: none, there is nothing to do"},
		{Change{StateHash: "a", NextStateHash: "b", Applied: true}, Pass, "Change: applied"},
		// It was made durable, whatever a check says: that must not be hidden.
		{Change{StateHash: "a", NextStateHash: "b", Applied: true}, Fail, "Change: applied"},
	}
	for _, c := range cases {
		if got := changeTitle(&c.c, c.result); got != c.want {
			t.Errorf("%+v, %s: got %q, want %q", c.c, c.result, got, c.want)
		}
	}
}

// The lines of a change are YAML's, also where a value is on a line of its own.
func TestChangeIsYAML(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		var block []string
		for _, line := range strings.Split(text(t, planned(), Style{Width: width}), "\n") {
			switch {
			case strings.HasPrefix(line, "Change:"):
				block = []string{}
			case block != nil && line == "":
				checkYAML(t, width, block)
				block = nil
			case block != nil:
				block = append(block, line)
			}
		}
	}
}

func checkYAML(t *testing.T, width int, block []string) {
	t.Helper()
	got := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.Join(block, "\n")), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"beforeVersion": 3, "removedVersions": []any{1, 2}, "activeKeyIdHash": hash3,
		"stateHash": state1, "nextGeneration": 12, "nextStateHash": state2,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("width %d: got %v", width, got)
	}
}

// anyText has words, quotations, and what must not reach a terminal.
func anyText() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.StringMatching(`[a-z]{1,12}`),
		rapid.StringMatching(`[a-f0-9]{40,90}`),
		rapid.SampledFrom([]string{"'bao-kms-provider doctor'", "`a b c`", "nodes'", "'", "\n", "\t", "\x1b[31m", "\x00", "\x7f", "\u009b2J", "\u202e", "\u2028", "\xff\xfe", "größe", "(see"}),
	)
	return rapid.Map(rapid.SliceOfN(part, 0, 20), func(parts []string) string { return strings.Join(parts, " ") })
}

func anyCheck() *rapid.Generator[Check] {
	return rapid.Custom(func(t *rapid.T) Check {
		c := Check{
			ID:     rapid.StringMatching(`[a-z]{2,12}\.[a-z]{2,12}`).Draw(t, "id"),
			Result: rapid.SampledFrom([]Result{Pass, Warn, Skip, Fail, "odd"}).Draw(t, "result"),
			Impact: rapid.SampledFrom([]Impact{Safety, Availability, "some_thing", "\x1b"}).Draw(t, "impact"),
		}
		c.Message = anyText().Draw(t, "message")
		switch c.Result {
		case Skip:
			c.SkippedBecause = rapid.SliceOfN(rapid.StringMatching(`[a-z]+\.[a-z]+`), 0, 5).Draw(t, "because")
		case Pass:
		default:
			c.Reason, c.NextStep = rapid.StringMatching(`[a-z_]{0,30}`).Draw(t, "reason"), anyText().Draw(t, "next")
		}
		return c
	})
}

func anyReport() *rapid.Generator[*Report] {
	return rapid.Custom(func(t *rapid.T) *Report {
		str := anyText()
		r := &Report{
			Kind:       rapid.SampledFrom([]string{KindDoctor, KindRotation, KindRetirement, "Strange\x1bKind"}).Draw(t, "kind"),
			Checks:     rapid.SliceOfN(anyCheck(), 0, 6).Draw(t, "checks"),
			Provider:   &Provider{str.Draw(t, "name"), str.Draw(t, "version"), str.Draw(t, "fingerprint")},
			Confidence: str.Draw(t, "confidence"),
			CannotKnow: rapid.SliceOfN(str, 0, 3).Draw(t, "cannot"),
		}
		r.Registry = &Registry{StateHash: str.Draw(t, "hash"), ComparedWithTransit: rapid.Bool().Draw(t, "compared"), Snapshots: []Snapshot{
			{1, str.Draw(t, "key hash"), str.Draw(t, "state"), str.Draw(t, "in transit")}}}
		r.Transit = &Transit{Type: str.Draw(t, "type"), Versions: []TransitVersion{{2, Time(str.Draw(t, "created")), rapid.Bool().Draw(t, "known")}}}
		r.Rotation = &Rotation{State: str.Draw(t, "rotation"), ActiveVersion: 1, ActiveKeyIDHash: str.Draw(t, "active"),
			Pending: &Pending{KeyIDHash: str.Draw(t, "pending"), EstimatedPromotion: Time(str.Draw(t, "moment"))},
			Ahead:   []Event{{str.Draw(t, "what"), str.Draw(t, "when")}}}
		r.Change = &Change{RemovedVersions: rapid.SliceOf(rapid.Int()).Draw(t, "removed"), StateHash: str.Draw(t, "state hash"), NextStateHash: str.Draw(t, "next hash"), Recovery: true}
		r.Files = []File{{str.Draw(t, "file"), str.Draw(t, "mode"), str.Draw(t, "target"), str.Draw(t, "purpose")}}
		r.Benchmark = &Benchmark{Rows: []BenchmarkRow{{Operation: str.Draw(t, "operation"), Callers: rapid.Int().Draw(t, "callers")}}}
		r.Next = []Step{{str.Draw(t, "step"), []string{str.Draw(t, "command")}}}
		return r
	})
}

// Whatever comes in: no line is wider than asked for but one with a single part
// that may not be broken, nothing reaches the terminal that it would act on, and
// nothing of what a check says is lost or out of order.
func TestAnyReport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyReport().Draw(t, "report")
		width := rapid.IntRange(-1, 130).Draw(t, "width")
		var b strings.Builder
		if err := WriteText(&b, r, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if width == 0 {
			width = 80
		}
		width = max(width, 40)
		for line := range strings.SplitSeq(strings.TrimSuffix(got, "\n"), "\n") {
			if utf8.RuneCountInString(line) > width && !unbreakable(r, line) {
				t.Errorf("wider than %d: %q", width, line)
			}
			if !utf8.ValidString(line) || strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) || strings.HasSuffix(line, " ") {
				t.Errorf("line %q", line)
			}
		}
		rest := strings.Fields(got)
		for _, c := range r.Checks {
			rest = after(t, rest, strings.Join(c.SkippedBecause, " "), c.Reason, c.Message, c.NextStep)
		}
		if n := len(r.Checks); n > 0 && !strings.Contains(got[strings.LastIndex(got, "\n\n"):], "\n\n"+strconv.Itoa(n)+" check") {
			t.Errorf("the last paragraph does not count %d checks:\n%s", n, got)
		}
	})
}

// after is what follows the words of the texts in fields, where they must be in
// this order.
func after(t *rapid.T, fields []string, texts ...string) []string {
	same := func(a, b string) bool { return strings.TrimRight(a, ":,;") == strings.TrimRight(b, ":,;") }
	for _, w := range strings.Fields(strings.Join(words(strings.Join(texts, " ")), " ")) {
		i := slices.IndexFunc(fields, func(f string) bool { return same(f, w) })
		if i < 0 {
			t.Fatalf("%q of %q is missing in %q", w, texts, fields)
		}
		fields = fields[i+1:]
	}
	return fields
}

// unbreakable: the line is a command, or nothing but its lead and one part.
func unbreakable(r *Report, line string) bool {
	told := strings.TrimSpace(line)
	if told == strings.TrimSpace(Visible(r.Next[0].Commands[0])) {
		return true
	}
	for _, l := range []string{"ok", "warn", "skip", "FAIL", "?", "next:", "when:", "differs:", "-", "1."} {
		if rest, found := strings.CutPrefix(told, l+" "); found {
			told = strings.TrimSpace(rest)
		}
	}
	return len(words(told)) == 1
}
