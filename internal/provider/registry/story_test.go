package registry_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/registry"
)

// A story is a file testdata/NAME.txt of paragraphs: comments, commands, a line
// "----", and what the commands printed. -update writes what they print now.
//
// The commands, with everything that one leaves out at its healthy value:
//
//	openbao latest=N [min-decryption=N] [min-encryption=N] [min-available=N]
//	        [unlisted=N,N] [remade=N,N]   what OpenBao says from now on
//	config  [stable=N] [reject-rollback=true|false]
//	clock   DURATION                      the wall clock moves, or steps back
//	bootstrap | observe | discover        one metadata read of that kind
//	promote delay=passed|running          a probe's attempt to promote
//	retire before=N | restore versions=N,N   an operator's plan, applied
//	check                                 what a probe would say of OpenBao
//	restart                               the registry is read from its document
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := retell(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			wantStory(t, file, string(text), got)
		})
	}
}

// wantStory shows the first paragraph that differs.
func wantStory(t *testing.T, file, want, got string) {
	t.Helper()
	wanted, told := strings.Split(want, "\n\n"), strings.Split(got, "\n\n")
	for i := range min(len(wanted), len(told)) {
		if wanted[i] != told[i] {
			t.Fatalf("%s: paragraph %d is\n%s\nwant\n%s", file, i+1, told[i], wanted[i])
		}
	}
	if want != got {
		t.Fatalf("%s differs in its length or its last lines", file)
	}
}

// retell runs a story's commands and returns the story with what they print.
func retell(t *testing.T, text string) string {
	t.Helper()
	s := &story{t: t, md: metadata(1), rules: rules, now: start}
	var out []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		told, _, _ := strings.Cut(paragraph, "\n----")
		var printed strings.Builder
		commands := 0
		for line := range strings.SplitSeq(told, "\n") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			commands++
			printed.WriteString(s.run(line))
		}
		if commands > 0 {
			told += "\n----\n" + printed.String()
		}
		out = append(out, strings.TrimSuffix(told, "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}

// story is the state in the middle of one.
type story struct {
	t     *testing.T
	r     *registry.Registry
	md    registry.Metadata
	rules registry.Rules
	now   int64
}

func (s *story) run(line string) string {
	s.t.Helper()
	words := strings.Fields(line)
	args := map[string]string{}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		args[name] = value
	}
	switch words[0] {
	case "openbao":
		s.md = s.metadata(args)
		return ""
	case "config":
		s.config(args)
		return ""
	case "clock":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		s.now += int64(d / time.Second)
		return ""
	case "bootstrap":
		r, err := registry.Bootstrap(scope, fingerprint, s.md, s.now)
		return s.take(r, registry.Change{Accepted: []int{1}}, err)
	case "observe":
		return s.take(s.r.Observe(s.md, s.rules, s.now))
	case "discover":
		return s.take(s.r.Discover(s.md, s.rules, s.now))
	case "promote":
		return s.take(s.r.Promote(s.md, s.rules, args["delay"] == "passed", s.now))
	case "retire":
		next, versions, err := s.r.Retire(s.md, s.rules, s.number(args["before"]))
		return s.operate("removed", next, versions, err)
	case "restore":
		next, versions, err := s.r.Restore(s.md, s.rules, s.numbers(args["versions"]))
		return s.operate("restored", next, versions, err)
	case "check":
		return s.check()
	case "restart":
		r, err := registry.Decode(s.r.Encode())
		if err != nil {
			s.t.Fatalf("restart: %v", err)
		}
		s.r = r
		return "read back\n" + s.print()
	}
	s.t.Fatalf("unknown command %q", line)
	return ""
}

func (s *story) number(word string) int {
	s.t.Helper()
	n, err := strconv.Atoi(word)
	if err != nil {
		s.t.Fatalf("%q is not a number", word)
	}
	return n
}

func (s *story) numbers(list string) (numbers []int) {
	s.t.Helper()
	for word := range strings.SplitSeq(list, ",") {
		numbers = append(numbers, s.number(word))
	}
	return numbers
}

func (s *story) metadata(args map[string]string) registry.Metadata {
	s.t.Helper()
	md := metadata(s.number(args["latest"]))
	for name, value := range args {
		switch name {
		case "latest":
		case "min-decryption":
			md.MinDecryption = s.number(value)
		case "min-encryption":
			md.MinEncryption = s.number(value)
		case "min-available":
			md.MinAvailable = s.number(value)
		case "unlisted":
			for _, v := range s.numbers(value) {
				delete(md.CreatedAtUnix, v)
			}
		case "remade":
			for _, v := range s.numbers(value) {
				md.CreatedAtUnix[v] += 3600
			}
		default:
			s.t.Fatalf("openbao: unknown argument %s", name)
		}
	}
	for v := 1; v < md.MinDecryption; v++ { // as OpenBao does
		delete(md.CreatedAtUnix, v)
	}
	return md
}

func (s *story) config(args map[string]string) {
	s.t.Helper()
	for name, value := range args {
		switch name {
		case "stable":
			s.rules.StableObservations = s.number(value)
		case "reject-rollback":
			s.rules.RejectRollback = value == "true"
		default:
			s.t.Fatalf("config: unknown argument %s", name)
		}
	}
}

// take keeps the outcome of a transition and prints it with the registry.
func (s *story) take(next *registry.Registry, change registry.Change, err error) string {
	s.t.Helper()
	var hold registry.Hold
	var rejection *registry.Rejection
	switch {
	case errors.As(err, &hold):
		return hold.Error() + "\n" + s.print()
	case errors.As(err, &rejection):
		return "refused: " + rejection.Error() + "\n" + s.print()
	case err != nil:
		s.t.Fatalf("neither a hold nor a rejection: %v", err)
	case !change.Any():
		if next != s.r {
			s.t.Fatal("nothing to save, and yet another registry")
		}
		return "nothing to save\n" + s.print()
	}
	if s.r != nil {
		wantSuccessor(s.t, s.r, next)
	}
	s.r = next
	return "to save: " + describe(change) + "\n" + s.print()
}

// operate keeps the outcome of an operator's transition and prints it with the
// registry.
func (s *story) operate(what string, next *registry.Registry, versions []int, err error) string {
	s.t.Helper()
	var refusal *registry.Refusal
	switch {
	case errors.As(err, &refusal):
		return "declined: " + refusal.Error() + "\n" + s.print()
	case err != nil:
		return s.take(nil, registry.Change{}, err)
	case len(versions) == 0:
		return s.take(next, registry.Change{}, nil)
	}
	wantSuccessor(s.t, s.r, next)
	s.r = next
	return fmt.Sprintf("to save: versions %v %s\n", versions, what) + s.print()
}

func describe(c registry.Change) string {
	var parts []string
	for _, v := range c.Accepted {
		parts = append(parts, fmt.Sprintf("version %d taken in", v))
	}
	if c.Superseded != 0 {
		parts = append(parts, fmt.Sprintf("version %d superseded", c.Superseded))
	}
	if c.Counted {
		parts = append(parts, "counted")
	}
	if c.Stable {
		parts = append(parts, "stable")
	}
	if c.Promoted != 0 {
		parts = append(parts, fmt.Sprintf("version %d promoted", c.Promoted))
	}
	if c.ClockRegressed {
		parts = append(parts, "clock regressed")
	}
	return strings.Join(parts, ", ")
}

func (s *story) check() string {
	if err := s.r.Validate(s.md, s.rules.RejectRollback); err != nil {
		return "refused: " + err.Error() + "\n"
	}
	if s.r.EncryptionBlocked(s.md) {
		return "metadata valid, encryption blocked\n"
	}
	return "metadata valid, encryption allowed\n"
}

// print shows the registry. Times count from the story's beginning.
func (s *story) print() string {
	if s.r == nil {
		return "no registry\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d\n", s.r.Generation())
	for _, e := range s.r.Entries() {
		fmt.Fprintf(&b, "  version %d  %-8s taken in %s", e.TransitVersion, e.State, moment(e.CreatedAtUnix))
		if e.StableObservations > 0 {
			fmt.Fprintf(&b, ", seen %d times since %s", e.StableObservations, moment(e.ObservedAtUnix))
		}
		if e.StableAtUnix != 0 {
			fmt.Fprintf(&b, ", stable %s", moment(e.StableAtUnix))
		}
		if e.PromotedAtUnix != 0 {
			fmt.Fprintf(&b, ", promoted %s", moment(e.PromotedAtUnix))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func moment(unix int64) string {
	return fmt.Sprintf("%+ds", unix-start)
}
