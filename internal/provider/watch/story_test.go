package watch

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/baokms/baokms/internal/provider/fault"
)

var update = flag.Bool("update", false, "write the transcripts in testdata again")

// TestStories runs the transcripts in testdata. In each, a line with "> " is a
// command, what follows is what the provider then says, and "#" begins a remark.
// Read them to see how a rotation goes; `go test -run TestStories -update` writes
// the answers again, and the change is then there to be reviewed.
//
// The commands:
//
//	start            bring the provider up; its state survives restarts
//	restart          stop it and start it again
//	probes N         let time pass until after N more metadata probes
//	rotate           OpenBao gets a new version of the key
//	latest N         OpenBao claims that N is the latest version
//	min FIELD N      OpenBao's min_decryption, min_encryption or min_available
//	fail WHAT        metadata, upsert or deep: OpenBao stops answering
//	heal             OpenBao answers again
//	break WHAT       state or checkpoint: saves fail there
//	repair           saves succeed again
//	edit             change a byte of the state file
//	swap             put an older copy of the state file in place
//	swap back        put the newest one back
//	discover N       a Decrypt asks for the key_id of version N
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			path := statePath(t)
			synctest.Test(t, func(t *testing.T) { got = tell(t, string(want), path) })
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("the story went another way\n--- got\n%s\n--- want\n%s", got, want)
			}
		})
	}
}

// story is a transcript being run.
type story struct {
	*node
	t       *testing.T
	bao     *bao
	path    string
	told    int    // bytes of the log already told
	started bool   // the node is up
	older   string // a state file to swap in
	newest  string
}

// tell runs the commands of a script and returns it with fresh answers.
func tell(t *testing.T, script, path string) string {
	s := &story{t: t, bao: newBao(), path: path}
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(script))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&out, line)
			s.run(strings.Fields(line[2:]))
			out.WriteString(s.answer())
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		}
	}
	if s.started {
		s.stop()
	}
	return out.String()
}

func (s *story) run(words []string) {
	arg := func(i int) string {
		if i >= len(words) {
			s.t.Fatalf("%q: an argument is missing", words)
		}
		return words[i]
	}
	number := func(i int) int {
		n, err := strconv.Atoi(arg(i))
		if err != nil {
			s.t.Fatalf("%q: %v", words, err)
		}
		return n
	}
	switch words[0] {
	case "start":
		s.node, s.told, s.started = newNode(s.t, s.bao, s.path), 0, true
		s.start()
	case "restart":
		s.stop()
		s.node, s.told = newNode(s.t, s.bao, s.path), 0
		s.start()
	case "probes":
		s.probes(number(1))
	case "rotate":
		s.remember()
		s.bao.rotate()
	case "latest":
		s.bao.set(func(b *bao) {
			b.key.Latest = number(1)
			b.key.CreatedAtUnix = maps.Clone(b.key.CreatedAtUnix)
			maps.DeleteFunc(b.key.CreatedAtUnix, func(v int, _ int64) bool { return v > b.key.Latest })
		})
	case "min":
		s.bao.set(func(b *bao) { *s.minimum(b, arg(1)) = number(2) })
	case "fail":
		s.fail(arg(1))
	case "heal":
		s.bao.set(func(b *bao) { b.readErr, b.upsertErr, b.deepErr = nil, nil, nil })
	case "break":
		map[string]func(){"state": s.breakStateFile, "checkpoint": s.breakCheckpoint}[arg(1)]()
	case "repair":
		s.repair()
	case "edit":
		edit(s.t, s.path, "transitVersion", "TransitVersion")
	case "swap":
		if len(words) == 2 {
			s.write(s.newest)
		} else {
			s.newest = s.files()[0]
			s.write(s.older)
		}
	case "discover":
		v := number(1)
		if err := s.watch.Discover(s.t.Context(), testScope.KeyID(v, 1715803200+int64(v))); err != nil && fault.CauseOf(err) != fault.DiscoveryFailed {
			s.t.Fatal(err)
		}
	default:
		s.t.Fatalf("%q is not a command", words[0])
	}
	synctest.Wait()
}

func (s *story) fail(what string) {
	err := failed(fault.Sealed)
	s.bao.set(func(b *bao) {
		switch what {
		case "metadata":
			b.readErr = err
		case "upsert":
			b.upsertErr = err
		case "deep":
			b.deepErr = err
		default:
			s.t.Fatalf("fail %q", what)
		}
	})
}

func (s *story) minimum(b *bao, field string) *int {
	switch field {
	case "min_decryption":
		return &b.key.MinDecryption
	case "min_encryption":
		return &b.key.MinEncryption
	case "min_available":
		return &b.key.MinAvailable
	}
	s.t.Fatalf("min %q", field)
	return nil
}

// remember keeps the state file of this moment for a later swap.
func (s *story) remember() {
	if s.node != nil {
		s.older = s.files()[0]
	}
}

func (s *story) write(content string) {
	if err := os.WriteFile(s.path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// answer is what the provider says: its health, its registry, and the events
// that it has logged since the last answer.
func (s *story) answer() string {
	var b strings.Builder
	v := s.verdict()
	health := fmt.Sprintf("unhealthy: %s", strings.Join(texts(v.Reasons), ", "))
	if v.Healthy {
		health = "healthy"
	}
	if s.degraded() {
		health += " (persistence degraded)"
	}
	fmt.Fprintf(&b, "  %s\n", health)
	if r := s.board.Load().Registry(); r != nil {
		fmt.Fprintf(&b, "  generation %d:", r.Generation())
		for _, e := range r.Entries() {
			fmt.Fprintf(&b, " %d %s", e.TransitVersion, e.State)
			if e == r.Pending() {
				fmt.Fprintf(&b, " (%d of %d)", e.StableObservations, testCount)
			}
		}
		fmt.Fprintln(&b)
	}
	for _, e := range s.newEvents() {
		fmt.Fprintf(&b, "  log: %s\n", e)
	}
	return b.String()
}

// newEvents are the log's events but for the probes, which the health line
// tells.
func (s *story) newEvents() (events []string) {
	records := s.log.String()[s.told:]
	s.told += len(records)
	for line := range strings.Lines(records) {
		for _, name := range []string{"key.observed", "key.promoted", "key.discovered", "registry.recovered", "clock.regressed"} {
			if strings.Contains(line, `"msg":"`+name+`"`) {
				events = append(events, name)
			}
		}
	}
	return events
}

func texts[T ~string](reasons []T) []string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = string(r)
	}
	return out
}
