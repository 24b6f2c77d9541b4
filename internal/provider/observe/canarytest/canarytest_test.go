package canarytest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// secret has what escapes and encodings change: quotes, a slash, +, %, <, a space
// and a line's end.
const secret = "Ca+nary/\"7f3a\" <9\\c>\n%token=é?"

var canaries = map[string]string{"token": secret, "key name": "canary-key-5d1e77"}

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func line(attr slog.Attr) string {
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("m", attr)
	slog.New(slog.NewTextHandler(&b, nil)).Info("m", attr)
	return b.String()
}

func wrapped(s string) string {
	var b strings.Builder
	for len(s) > 7 {
		b.WriteString(s[:7] + "\r\n")
		s = s[7:]
	}
	return b.String() + s
}

func TestEveryForm(t *testing.T) {
	b := []byte(secret)
	cases := map[string]string{
		"plain":                    "x" + secret + "y",
		"upper case":               strings.ToUpper("canary-key-5d1e77"),
		"alone":                    secret,
		"JSON":                     quoted(secret),
		"JSON in JSON":             quoted(quoted(map[string]string{"a": secret})),
		"JSON in JSON in JSON":     quoted(quoted(quoted(secret))),
		"JSON bytes":               quoted(b),
		"JSON bytes in an object":  quoted(map[string]any{"plaintext": append([]byte("x"), b...)}),
		"a list of numbers":        quoted([]int{67, 97, 43, 110, 97, 114, 121, 47, 34, 55, 102, 51, 97, 34, 32, 60, 57, 92, 99, 62, 10, 37, 116, 111, 107, 101, 110, 61, 195, 169, 63}),
		"Go's quotes":              strconv.Quote(secret),
		"Go's ASCII quotes":        strconv.QuoteToASCII(secret),
		"Go's hexadecimal escapes": `\x43\x61\x2b` + secret[3:],
		"printed bytes":            fmt.Sprint(b),
		"printed hex":              fmt.Sprintf("%x", b),
		"printed upper hex":        fmt.Sprintf("%X", b),
		"spaced hex":               fmt.Sprintf("% x", b),
		"dumped hex":               strings.ReplaceAll(wrapped(hex.EncodeToString(b)), "\r", ""),
		"a URL's path":             "https://bao/v1/" + url.PathEscape(secret),
		"a URL's query":            "?q=" + url.QueryEscape(secret),
		"a URL in JSON":            quoted("https://bao/" + url.PathEscape(secret)),
		"lower-case percent":       strings.ToLower(url.PathEscape("canary-key-5d1e77")) + strings.ReplaceAll(url.PathEscape(secret), "%2F", "%2f"),
		"text in a log":            line(slog.String("a", secret)),
		"bytes in a log":           line(slog.Any("a", b)),
		"an error in a log":        line(slog.Any("error", errors.New("no: "+secret))),
		"a label":                  `m{name="` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(secret) + `"} 1`,
		"wrapped base64":           wrapped(base64.StdEncoding.EncodeToString(b)),
		"wrapped base64 in JSON":   quoted(wrapped(base64.StdEncoding.EncodeToString(b))),
		"base64 in a query":        url.QueryEscape(base64.StdEncoding.EncodeToString(b)),
	}
	for before := range 4 {
		for after := range 4 {
			whole := []byte(strings.Repeat("\xff", before) + secret + strings.Repeat("\xfe", after))
			for name, e := range map[string]*base64.Encoding{
				"base64": base64.StdEncoding, "raw base64": base64.RawStdEncoding, "URL base64": base64.URLEncoding, "raw URL base64": base64.RawURLEncoding,
			} {
				cases[fmt.Sprintf("%s, %d bytes before, %d after", name, before, after)] = e.EncodeToString(whole)
			}
		}
	}
	s := New(t, canaries)
	for name, out := range cases {
		found := s.Find("out", []byte("before "+out+" after"))
		if len(found) == 0 {
			t.Errorf("%s is not found in %q", name, out)
		}
		for _, f := range found {
			if f.Where != "out" || f.Form == "" || canaries[f.Canary] == "" {
				t.Errorf("%s: finding %+v", name, f)
			}
		}
	}
}

func TestNothingElseIsFound(t *testing.T) {
	s := New(t, canaries)
	for _, out := range []string{
		"", "[redacted]", secret[1:], secret[:len(secret)-1], html.EscapeString(strings.Repeat("canary ", 100)), `\`, `\u`, `\x4`, "%", "%4", "%zz",
		`{"hash":"D-tQor4VWtHLwYdsXDFj8b_23ki1UeJF11B5kAMAMB4"}`, string([]byte{0xff, 0, 1, 2}),
	} {
		if found := s.Find("out", []byte(out)); len(found) != 0 {
			t.Errorf("in %q: %v", out, found)
		}
	}
}

func TestAFindingSaysWhatAndWhere(t *testing.T) {
	found := New(t, canaries).Find("the log", []byte(`{"operation":"canary-key-5d1e77"}`))
	if len(found) != 1 {
		t.Fatalf("found %v, want one", found)
	}
	const want = `the log holds the canary "key name" as plain text: …{\"operation\":\"canary-key-5d1e77\"}…`
	if got := found[0].String(); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	both := New(t, canaries).Find("x", []byte(secret+"canary-key-5d1e77"+hex.EncodeToString([]byte(secret))))
	if len(both) != 3 {
		t.Errorf("found %v, want two canaries, one of them in two forms", both)
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// fatal is what a recorder's Fatal panics with.
type fatal string

func (r *recorder) Fatal(args ...any)                 { panic(fatal(fmt.Sprint(args...))) }
func (r *recorder) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

func (r *recorder) want(t *testing.T, name string, parts ...string) {
	t.Helper()
	if len(r.errors) != len(parts) {
		t.Errorf("%s: %d failures %q, want %d", name, len(r.errors), r.errors, len(parts))
		return
	}
	for i, part := range parts {
		if !strings.Contains(r.errors[i], part) {
			t.Errorf("%s: failure %q, want %q in it", name, r.errors[i], part)
		}
	}
}

func TestTheTestFails(t *testing.T) {
	s := New(t, map[string]string{"key": "canary-key-5d1e77"})
	detailed, err := status.New(codes.Internal, "internal").WithDetails(wrapperspb.String("canary-key-5d1e77"))
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		scan func(testing.TB)
		want []string
	}{
		{"bytes", func(tb testing.TB) { s.Bytes(tb, "log", []byte("canary-key-5d1e77")) }, []string{`log holds the canary "key"`}},
		{"clean bytes", func(tb testing.TB) { s.Bytes(tb, "log", []byte("canary")) }, nil},
		{"JSON", func(tb testing.TB) { s.JSON(tb, "ready", map[string]any{"canary-key-5d1e77": 1}) }, []string{"ready holds"}},
		{"no JSON", func(tb testing.TB) { s.JSON(tb, "ready", func() {}) }, []string{"ready: json"}},
		{"no error", func(tb testing.TB) { s.Error(tb, "err", nil) }, nil},
		{"an error", func(tb testing.TB) { s.Error(tb, "err", errors.New("canary-key-5d1e77")) }, []string{"err holds"}},
		{"a gRPC message", func(tb testing.TB) { s.Error(tb, "err", status.Error(codes.Internal, "canary-key-5d1e77")) },
			[]string{"err holds", "err on the wire holds"}},
		{"gRPC details", func(tb testing.TB) { s.Error(tb, "err", fmt.Errorf("x: %w", detailed.Err())) }, []string{"err on the wire holds"}},
		{"a clean gRPC error", func(tb testing.TB) { s.Error(tb, "err", status.Error(codes.Internal, "internal")) }, nil},
	}
	for _, c := range cases {
		r := &recorder{TB: t}
		c.scan(r)
		r.want(t, c.name, c.want...)
	}
}

func TestFiles(t *testing.T) {
	s := New(t, map[string]string{"key": "canary-key-5d1e77"})
	dir := t.TempDir()
	scan := func() *recorder {
		r := &recorder{TB: t}
		s.Files(r, dir)
		return r
	}
	scan().want(t, "an empty directory", "holds no file")
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "nothing")
	scan().want(t, "a clean directory")
	write("deep/b", base64.StdEncoding.EncodeToString([]byte("canary-key-5d1e77")))
	scan().want(t, "a file", filepath.Join("deep", "b")+" holds")
	write("canary-key-5d1e77.lock", "")
	scan().want(t, "a name", "the name of ", filepath.Join("deep", "b")+" holds")
	if err := os.Symlink("/transit/canary-key-5d1e77", filepath.Join(dir, "z")); err != nil {
		t.Fatal(err)
	}
	scan().want(t, "a link", "the name of ", filepath.Join("deep", "b")+" holds", "the target of ")

	r := &recorder{TB: t}
	s.Files(r, filepath.Join(dir, "missing"))
	r.want(t, "a missing directory", "cannot look at everything")
}

func TestCanariesThatProveNothingAreRefused(t *testing.T) {
	for name, c := range map[string]map[string]string{"none": nil, "short": {"a": "elevenbytes"}} {
		func() {
			defer func() {
				if _, refused := recover().(fatal); !refused {
					t.Errorf("%s: accepted", name)
				}
			}()
			New(&recorder{TB: t}, c)
		}()
	}
}
