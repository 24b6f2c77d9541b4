package observe

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	testUID = "3f6b2c1e-6f5a-4f0e-9a57-0c8f0b4f8a11"
	// printf %s 3f6b2c1e-6f5a-4f0e-9a57-0c8f0b4f8a11 | sha256sum
	testUIDHash   = "sha256:38d1d3631ad0d05f56907be9527644d66a04916a55b0be217dae05ee36c888d2"
	testRequestID = "9f1d0a2c-77de-4c39-b1a5-2f6b6f0f2f01"
)

type traceKey struct{}

// trace stands for what openbao offers: within the context that it returns a call
// leaves its ID.
func trace(ctx context.Context) (context.Context, func() string) {
	var last string
	return context.WithValue(ctx, traceKey{}, &last), func() string { return last }
}

// answered is a call to OpenBao within ctx.
func answered(ctx context.Context, id string) {
	if last, ok := ctx.Value(traceKey{}).(*string); ok {
		*last = id
	}
}

// correlated is the handwritten part of a KMS request: its attributes as text, "-"
// when correlation is off.
func correlated(c *Correlation, uid, requestID string, took time.Duration) string {
	ctx, attrs := c.Correlate(context.Background(), uid)
	answered(ctx, requestID)
	time.Sleep(took) // synthetic time
	if attrs == nil {
		return "-"
	}
	return fmt.Sprint(attrs())
}

func correlation(t *testing.T, edit func(*CorrelationOptions)) (*Correlation, *printed) {
	t.Helper()
	l, p := floodLogger(t, "debug")
	o := CorrelationOptions{Enabled: true, TTL: 15 * time.Minute, IncidentID: "INC-7", Level: "debug", Logger: l, Trace: trace}
	if edit != nil {
		edit(&o)
	}
	c, err := NewCorrelation(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, p
}

const always = "incident_id=INC-7 expires_at=2000-01-01T00:15:00Z"

func TestCorrelationUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := correlation(t, nil)
		if got := p.raw(); strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, `"level":"info","message":"correlation.started","incident_id":"INC-7","expires_at":"2000-01-01T00:15:00Z"`) {
			t.Errorf("at the start:\n%s", got)
		}
		requests := []struct {
			uid, id string
			want    string
		}{
			{testUID, testRequestID, "[request_uid_hash=" + testUIDHash + " openbao_request_id=" + testRequestID + " " + always + "]"},
			{testUID, "", "[request_uid_hash=" + testUIDHash + " " + always + "]"},
			{"", testRequestID, "[openbao_request_id=" + testRequestID + " " + always + "]"},
			{"", "", "[" + always + "]"},
		}
		for _, r := range requests {
			if got := correlated(c, r.uid, r.id, 0); got != r.want {
				t.Errorf("uid %q, OpenBao's ID %q: %s, want %s", r.uid, r.id, got, r.want)
			}
		}
		time.Sleep(15*time.Minute - time.Second)
		synctest.Wait()
		if got := correlated(c, testUID, "", 0); !strings.Contains(got, testUIDHash) {
			t.Errorf("a second before its end: %s", got)
		}
		if got := correlated(c, testUID, testRequestID, time.Second); got != "[]" {
			t.Errorf("a request that is answered at the end has %s, want nothing", got)
		}
		synctest.Wait()
		if got := p.raw(); strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, `"level":"info","message":"correlation.expired","incident_id":"INC-7","expires_at":"2000-01-01T00:15:00Z"`) {
			t.Errorf("at the end:\n%s", got)
		}
		if got := correlated(c, testUID, testRequestID, 0); got != "-" {
			t.Errorf("after its end: %s", got)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		p.want(t, "a day later")
	})
}

// A late timer changes nothing: the clock decides, and the end is logged once.
func TestCorrelationExpiresWithoutItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := correlation(t, nil)
		c.timer.Stop()
		time.Sleep(15 * time.Minute)
		p.take(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if got := correlated(c, testUID, testRequestID, 0); got != "-" {
					t.Errorf("after its end: %s", got)
				}
			})
		}
		wg.Wait()
		p.want(t, "at the end", "info correlation.expired")
	})
}

func TestCorrelationCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := correlation(t, nil)
		p.take(t)
		c.Close()
		c.Close()
		if got := correlated(c, testUID, testRequestID, 0); got != "-" {
			t.Errorf("after Close: %s", got)
		}
		c.expire() // a timer that fired meanwhile
		time.Sleep(time.Hour)
		synctest.Wait()
		p.want(t, "after Close")
	})
}

func TestCorrelationWithoutATrace(t *testing.T) {
	c, _ := correlation(t, func(o *CorrelationOptions) { o.Trace = nil })
	ctx, attrs := c.Correlate(t.Context(), testUID)
	if ctx != t.Context() {
		t.Error("the context was changed")
	}
	if got := fmt.Sprint(attrs()); !strings.HasPrefix(got, "[request_uid_hash="+testUIDHash+" incident_id=INC-7 ") {
		t.Errorf("attributes are %s", got)
	}
}

func TestCorrelationGuards(t *testing.T) {
	l, p := floodLogger(t, "debug")
	good := CorrelationOptions{Enabled: true, TTL: time.Hour, IncidentID: "INC-7", Level: "debug", Logger: l}
	cases := []struct {
		name string
		edit func(*CorrelationOptions)
		want string // beginning of the error
	}{
		{"level info", func(o *CorrelationOptions) { o.Level = "info" }, "logging.debugCorrelation.enabled: needs logging.level debug"},
		{"no level", func(o *CorrelationOptions) { o.Level = "" }, "logging.debugCorrelation.enabled: needs logging.level debug"},
		{"no incident", func(o *CorrelationOptions) { o.IncidentID = "" }, "logging.debugCorrelation.incidentId: "},
		{"a long incident", func(o *CorrelationOptions) { o.IncidentID = strings.Repeat("i", 65) }, "logging.debugCorrelation.incidentId: "},
		{"an incident with spaces", func(o *CorrelationOptions) { o.IncidentID = "INC 7" }, "logging.debugCorrelation.incidentId: "},
		{"an incident of two lines", func(o *CorrelationOptions) { o.IncidentID = "INC-7\n" }, "logging.debugCorrelation.incidentId: "},
		{"a token for an incident", func(o *CorrelationOptions) { o.IncidentID = "s.0123456789abcdefghijABCD" }, "logging.debugCorrelation.incidentId: "},
		{"no time", func(o *CorrelationOptions) { o.TTL = 0 }, "logging.debugCorrelation.ttl: 0s "},
		{"time before the start", func(o *CorrelationOptions) { o.TTL = -time.Minute }, "logging.debugCorrelation.ttl: -1m0s "},
		{"too much time", func(o *CorrelationOptions) { o.TTL = time.Hour + 1 }, "logging.debugCorrelation.ttl: 1h0m0.000000001s "},
	}
	for _, c := range cases {
		o := good
		c.edit(&o)
		got, err := NewCorrelation(o)
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want an error that begins with %q", c.name, got, err, c.want)
		}
		if err != nil && o.IncidentID != "" && strings.Contains(err.Error(), o.IncidentID) {
			t.Errorf("%s: the error repeats what was given: %v", c.name, err)
		}
	}
	p.want(t, "after errors")
	off := good
	off.Enabled, off.Level = false, "info"
	c, err := NewCorrelation(off)
	if c != nil || err != nil {
		t.Errorf("not enabled: %v, %v; want nothing", c, err)
	}
	if got := correlated(c, testUID, testRequestID, 0); got != "-" {
		t.Errorf("not enabled: %s", got)
	}
	c.Close()
	on, err := NewCorrelation(good)
	if err != nil {
		t.Fatalf("an hour is allowed: %v", err)
	}
	on.Close()
}

// What claims to be OpenBao's ID but is none does not come out.
func TestCorrelationPrintsOnlyIDs(t *testing.T) {
	c, p := correlation(t, nil)
	for _, id := range []string{canary, "transit/encrypt/key", testRequestID + "\n", strings.Repeat("a", 400)} {
		p.raw()
		ctx, attrs := c.Correlate(t.Context(), testUID)
		answered(ctx, id)
		c.o.Logger.LogAttrs(t.Context(), slog.LevelDebug, "kms.request", attrs()...)
		if got := p.raw(); !strings.Contains(got, `"openbao_request_id":"[redacted]"`) || strings.Contains(got, testUID) {
			t.Errorf("%q is printed as %s", id, got)
		}
	}
	ctx, attrs := c.Correlate(t.Context(), testUID)
	answered(ctx, testRequestID)
	c.o.Logger.LogAttrs(t.Context(), slog.LevelDebug, "kms.request", attrs()...)
	if got := p.raw(); strings.Contains(got, redacted) || !strings.Contains(got, testRequestID) || !strings.Contains(got, testUIDHash) {
		t.Errorf("printed %s, want everything of a good one", got)
	}
}

func BenchmarkCorrelateExpired(b *testing.B) {
	c, err := NewCorrelation(CorrelationOptions{Enabled: true, TTL: time.Hour, IncidentID: "INC-7", Level: "debug", Logger: slog.New(slog.DiscardHandler), Trace: trace})
	if err != nil {
		b.Fatal(err)
	}
	c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, attrs := c.Correlate(b.Context(), testUID); attrs != nil {
			b.Fatal("on")
		}
	}
}
