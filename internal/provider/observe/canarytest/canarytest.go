// Package canarytest looks for secrets in everything that comes out of the
// provider: logs, metrics, readiness, gRPC errors, reports, files (design:
// observability, logs; overview, invariant 10).
//
// A test plants canaries, which are made-up secrets that occur nowhere else,
// drives the provider through its failures, and hands what came out to a Scanner.
// That finds a canary also in the dress in which encoders, printers and URLs put
// it. It does not find a part of a canary: plant what may be cut as canaries of
// their own.
//
// Only tests import it.
package canarytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// minLength is that of the shortest canary in bytes: a shorter one could occur by
// chance.
const minLength = 12

// Scanner knows the canaries. Its methods are safe for concurrent use.
type Scanner struct{ needles []needle }

// Finding is one canary in one dress in one place.
type Finding struct {
	Canary string // the canary's name
	Where  string // the output
	Form   string // how it was written there
	Around string // what surrounds it, after the form's escapes were undone
}

func (f Finding) String() string {
	return fmt.Sprintf("%s holds the canary %q as %s: …%s…", f.Where, f.Canary, f.Form, f.Around)
}

// New returns a Scanner for canaries by their names. It ends the test when there
// is none, or one that is shorter than 12 bytes.
func New(tb testing.TB, canaries map[string]string) *Scanner {
	tb.Helper()
	if len(canaries) == 0 {
		tb.Fatal("canarytest: there are no canaries")
	}
	s := &Scanner{}
	for name, value := range canaries {
		if len(value) < minLength {
			tb.Fatalf("canarytest: the canary %q has %d bytes; %d are the least that are not found by chance", name, len(value), minLength)
		}
		s.needles = append(s.needles, needlesOf(name, value)...)
	}
	return s
}

// Find returns all findings in out, one for each canary and form. where names the
// output.
func (s *Scanner) Find(where string, out []byte) []Finding {
	var found []Finding
	views := viewsOf(out)
	for _, n := range s.needles {
		for _, v := range views {
			if f, ok := n.in(v); ok {
				f.Where = where
				found = append(found, f)
				break
			}
		}
	}
	return found
}

// Bytes fails the test for each canary in out: a log, an exposition, an answer's
// body.
func (s *Scanner) Bytes(tb testing.TB, where string, out []byte) {
	tb.Helper()
	for _, f := range s.Find(where, out) {
		tb.Error(f)
	}
}

// Text is Bytes of a string.
func (s *Scanner) Text(tb testing.TB, where, out string) {
	tb.Helper()
	s.Bytes(tb, where, []byte(out))
}

// JSON is Bytes of a value's JSON document.
func (s *Scanner) JSON(tb testing.TB, where string, v any) {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Errorf("%s: %v", where, err)
		return
	}
	s.Bytes(tb, where, b)
}

// Error fails the test for each canary in what of an error leaves the process:
// its text, and for an error with a gRPC status the message and the details that
// go over the wire. Nil holds nothing.
func (s *Scanner) Error(tb testing.TB, where string, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	s.Text(tb, where, err.Error())
	var remote interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &remote) {
		return
	}
	wire, err := proto.Marshal(remote.GRPCStatus().Proto())
	if err != nil {
		tb.Errorf("%s: %v", where, err)
		return
	}
	s.Bytes(tb, where+" on the wire", wire)
}

// Files fails the test for each canary in a directory: in the content of every
// regular file, in every name below it, and in the target of every link. It also
// fails when there is no regular file, since nothing would have been looked at.
func (s *Scanner) Files(tb testing.TB, dir string) {
	tb.Helper()
	read := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir {
			s.Text(tb, "the name of "+path, d.Name())
		}
		switch {
		case d.Type().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			read++
			s.Bytes(tb, path, content)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			s.Text(tb, "the target of "+path, target)
		}
		return nil
	})
	switch {
	case err != nil:
		tb.Errorf("canarytest: cannot look at everything in %s: %v", dir, err)
	case read == 0:
		tb.Errorf("canarytest: %s holds no file to look at", dir)
	}
}

// surroundings of a finding, for the test's output.
func surroundings(text string, at, length int) string {
	const margin = 24
	from, to := max(0, at-margin), min(len(text), at+length+margin)
	return strings.Trim(fmt.Sprintf("%q", text[from:to]), `"`)
}
