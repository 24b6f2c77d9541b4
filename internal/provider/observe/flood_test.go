package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"
)

// printed is what a logger has printed, for use from several goroutines. One
// record a line: the level, the event and what tells a failure.
type printed struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// raw returns what was printed since it was last asked for.
func (p *printed) raw() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.out.Reset()
	return p.out.String()
}

// take is raw, in short.
func (p *printed) take(t *testing.T) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(p.raw()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		words := []string{fmt.Sprint(r["level"]), fmt.Sprint(r["message"])}
		for _, key := range []string{"operation", "method", "status", "error_class", "reason", "error", "n", "repeated", "since"} {
			if v, ok := r[key]; ok {
				words = append(words, fmt.Sprintf("%s=%v", key, v))
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

func (p *printed) want(t *testing.T, when string, lines ...string) {
	t.Helper()
	if got, want := p.take(t), strings.Join(lines, "\n"); got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", when, got, want)
	}
}

func floodLogger(t *testing.T, level string) (*slog.Logger, *printed) {
	t.Helper()
	p := &printed{}
	l, err := NewLogger(p, level, "json")
	if err != nil {
		t.Fatal(err)
	}
	return l, p
}

// The times of synctest begin here.
const (
	minute0 = "2000-01-01T00:00:00Z"
	minute1 = "2000-01-01T00:01:00Z"
)

func decryptFails(l *slog.Logger, class, text string) {
	l.Warn("kms.request", "operation", "Decrypt", "status", "Unavailable", "duration_ms", 1.5, "error_class", class, "error", text)
}

const (
	sealedLine  = "warn kms.request operation=Decrypt status=Unavailable error_class=openbao_sealed error=sealed"
	timeoutLine = "warn kms.request operation=Decrypt status=Unavailable error_class=timeout error=slow"
)

func TestRepeatsAreToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		for range 1000 {
			decryptFails(l, "openbao_sealed", "sealed")
		}
		p.want(t, "at the beginning", sealedLine)
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		p.want(t, "just before the minute is over")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		p.want(t, "after a minute", sealedLine+" repeated=999 since="+minute0)

		for range 3 {
			time.Sleep(10 * time.Second)
			decryptFails(l, "openbao_sealed", "sealed")
		}
		p.want(t, "in the second minute")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		p.want(t, "after two minutes", sealedLine+" repeated=3 since="+minute1)

		time.Sleep(time.Hour)
		synctest.Wait()
		p.want(t, "in silence")
		decryptFails(l, "openbao_sealed", "sealed")
		p.want(t, "when it comes back", sealedLine)
		time.Sleep(time.Hour)
		synctest.Wait()
		p.want(t, "a failure without repeats")
	})
}

func TestWhatEndsOrChangesIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		for range 5 {
			decryptFails(l, "openbao_sealed", "sealed")
		}
		p.take(t)
		time.Sleep(time.Second)
		decryptFails(l, "timeout", "slow")
		p.want(t, "another failure begins", sealedLine+" repeated=4 since="+minute0, timeoutLine)
		for range 5 { // the two alternate: both go on
			decryptFails(l, "openbao_sealed", "sealed")
			decryptFails(l, "timeout", "slow")
		}
		p.want(t, "both go on")
		time.Sleep(time.Minute)
		synctest.Wait()
		p.want(t, "after a minute",
			sealedLine+" repeated=5 since=2000-01-01T00:00:01Z",
			timeoutLine+" repeated=5 since=2000-01-01T00:00:01Z")
	})
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		fails := func() {
			l.Warn("auth.login", "operation", "jwt_login", "error_class", "auth_failed", "error", "no", "status", "auth_failed")
		}
		works := func(operation string) {
			l.Info("auth.login", "operation", operation, "status", "ok")
		}
		const failed = "warn auth.login operation=jwt_login status=auth_failed error_class=auth_failed error=no"
		fails()
		fails()
		works("cert_login")
		p.want(t, "something else succeeds", failed, "info auth.login operation=cert_login status=ok")
		works("jwt_login")
		p.want(t, "it succeeds", failed+" repeated=1 since="+minute0, "info auth.login operation=jwt_login status=ok")
		fails()
		p.want(t, "it fails again", failed)
		works("jwt_login")
		p.want(t, "it succeeds without repeats", "info auth.login operation=jwt_login status=ok")
		time.Sleep(time.Hour)
		synctest.Wait()
		p.want(t, "later")
	})
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		for range 3 {
			decryptFails(l, "openbao_sealed", "sealed")
		}
		l.Error("serve.shutdown", "status", "failed")
		p.want(t, "at shutdown", sealedLine, sealedLine+" repeated=2 since="+minute0, "error serve.shutdown status=failed")
		time.Sleep(time.Hour)
		synctest.Wait()
		p.want(t, "later")
	})
}

func TestWhatIsNeverLeftOut(t *testing.T) {
	events := []struct {
		level slog.Level
		event string
	}{
		{slog.LevelInfo, "kms.request"}, {slog.LevelError, "kms.request"}, {slog.LevelInfo, "auth.login"}, {slog.LevelInfo, "auth.renewal"},
		{slog.LevelWarn, "status.probe"}, {slog.LevelWarn, "serve.start"}, {slog.LevelWarn, "serve.ready"}, {slog.LevelInfo, "serve.shutdown"},
		{slog.LevelWarn, "key.observed"}, {slog.LevelWarn, "key.promoted"}, {slog.LevelWarn, "key.discovered"},
		{slog.LevelWarn, "registry.recovered"}, {slog.LevelWarn, "registry.created"}, {slog.LevelWarn, "clock.regressed"},
		{slog.LevelWarn, "socket.stale_removed"}, {slog.LevelWarn, "correlation.expired"},
	}
	l, p := floodLogger(t, "info")
	for _, e := range events {
		for n := range 3 {
			l.Log(t.Context(), e.level, e.event, "operation", "Decrypt", "error_class", "panic", "n", n)
		}
		line := levelName(e.level) + " " + e.event + " operation=Decrypt error_class=panic n="
		p.want(t, e.event, line+"0", line+"1", line+"2")
	}
}

// At debug the operator asked for everything.
func TestNothingIsLeftOutAtDebug(t *testing.T) {
	l, p := floodLogger(t, "debug")
	for range 3 {
		decryptFails(l, "openbao_sealed", "sealed")
	}
	p.want(t, "at debug", sealedLine, sealedLine, sealedLine)
}

// A timer that fires while its failure is closed does not end the minute of the
// one that comes after it.
func TestALateTimerEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		fs := l.Handler().(*floodHandler).floods
		opened := func() *flood {
			decryptFails(l, "openbao_sealed", "sealed")
			fs.mu.Lock()
			defer fs.mu.Unlock()
			for _, f := range fs.open {
				return f
			}
			return nil
		}
		first := opened()
		fs.closeAll()
		second := opened()
		p.want(t, "each is a first one", sealedLine, sealedLine)
		fs.minute(first)
		if again := opened(); again != second || again == first {
			t.Error("the late timer has ended another failure's minute")
		}
		p.want(t, "it goes on")
		fs.closeAll()
		p.want(t, "when it is closed", sealedLine+" repeated=1 since="+minute0)
	})
}

// Flood control is a handler like any other.
func TestFloodHandlerKeepsSlogsRules(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return controlFloods(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) map[string]any {
		var r map[string]any
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	})
}

// Attributes and groups of a logger count as those of its records, and come out
// once.
func TestFloodsOfDerivedLoggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		for range 2 {
			l.With("operation", "Decrypt").Warn("kms.request", "error_class", "timeout")
			l.With("operation", "Encrypt").Warn("kms.request", "error_class", "timeout")
			l.WithGroup("g").Warn("kms.request", "error_class", "panic")
			l.WithGroup("g").With("error_class", "timeout").Warn("kms.request")
			l.With("operation", "Decrypt").With("operation", "Status").Warn("kms.request", "error_class", "timeout")
		}
		first := p.raw()
		if n := strings.Count(first, "\n"); n != 5 {
			t.Errorf("%d lines for five failures:\n%s", n, first)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := p.raw()
		if n := strings.Count(got, "\n"); n != 5 || strings.Count(got, `"repeated":1`) != 5 {
			t.Errorf("%d lines after a minute, want one for each failure:\n%s", n, got)
		}
		for _, want := range []string{
			`"operation":"Decrypt","error_class":"timeout","repeated":1`,
			`"operation":"Encrypt","error_class":"timeout","repeated":1`,
			`"g":{"error_class":"panic","repeated":1,`,
			`"g":{"error_class":"timeout","repeated":1,`,
		} {
			if strings.Count(got, want) != 1 {
				t.Errorf("not exactly one %s in:\n%s", want, got)
			}
		}
	})
}

// Without end new failures cost no memory without end, and are counted.
func TestFloodsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		h := l.Handler().(*floodHandler)
		const kinds = 10 * maxFloods
		for i := range kinds {
			decryptFails(l, "timeout", strings.Repeat("x", i+1))
			l.Warn("openbao.request", "operation", "transit_decrypt", "error_class", "timeout", "error", strings.Repeat("x", i+1))
		}
		if n := strings.Count(p.take(t), "\n") + 1; n != maxFloods+2 {
			t.Errorf("%d lines at first, want one for each of %d and one for each event's rest", n, maxFloods)
		}
		remembered := func() int {
			h.floods.mu.Lock()
			defer h.floods.mu.Unlock()
			return len(h.floods.open)
		}
		if n := remembered(); n != maxFloods+2 {
			t.Errorf("%d failures are remembered, want %d", n, maxFloods+2)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		const rest = kinds - maxFloods/2 - 1
		lines := strings.Split(p.take(t), "\n")
		slices.Sort(lines) // the timers of one moment have no order
		want := []string{
			fmt.Sprintf("warn kms.request repeated=%d since=%s", rest, minute0),
			fmt.Sprintf("warn openbao.request repeated=%d since=%s", rest, minute0),
		}
		if !slices.Equal(lines, want) {
			t.Errorf("after a minute %q, want %q", lines, want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := remembered(); n != 0 {
			t.Errorf("%d failures are remembered after a silent minute, want none", n)
		}
	})
}

// Every failure is printed or counted, exactly once, whoever reports it.
func TestFloodsFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		const callers, each = 16, 200
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range each {
					decryptFails(l, []string{"timeout", "openbao_sealed"}[i%2], "x")
					time.Sleep(time.Second)
				}
			})
		}
		wg.Wait()
		l.Info("serve.shutdown")
		counted := 0
		for line := range strings.Lines(p.take(t)) {
			n := 1
			if _, count, found := strings.Cut(line, "repeated="); found {
				if _, err := fmt.Sscan(count, &n); err != nil {
					t.Fatal(err)
				}
			} else if !strings.Contains(line, "kms.request") {
				n = 0
			}
			counted += n
		}
		if counted != callers*each {
			t.Errorf("%d failures are told, want %d", counted, callers*each)
		}
	})
}

// A summary is redacted as every line is.
func TestSummariesAreRedacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		for range 2 {
			l.Warn("kms.request", "operation", canary, "error", errors.New("Bearer "+jwtCanary), "reason", marked{canary}, "status", []byte(canary))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.raw(); strings.Contains(got, canary) || strings.Contains(got, jwtCanary) || strings.Count(got, "repeated") != 1 {
			t.Errorf("printed:\n%s", got)
		}
	})
}
