package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/status"
)

func newLogger(t *testing.T, level, format string) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	l, err := NewLogger(&out, level, format)
	if err != nil {
		t.Fatal(err)
	}
	return l, &out
}

func TestLoggerWritesTheSchema(t *testing.T) {
	l, out := newLogger(t, "info", "json")
	l.Warn("kms.request", "operation", "Decrypt", "duration_ms", 1.25, "key_id_hash", hashOfKey, "transit_key_version", 3,
		"error_class", fault.ClassAADMismatch)
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("not one JSON object a line: %v\n%s", err, out)
	}
	when, err := time.Parse(time.RFC3339Nano, got["ts"].(string))
	if err != nil || when.Location() != time.UTC || time.Since(when) > time.Minute {
		t.Errorf("ts is %v (%v), want the present time in UTC", got["ts"], err)
	}
	delete(got, "ts")
	want := map[string]any{
		"level": "warn", "message": "kms.request", "operation": "Decrypt", "duration_ms": 1.25,
		"key_id_hash": hashOfKey, "transit_key_version": 3.0, "error_class": "aad_mismatch",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("record is %v, want %v", got, want)
	}
}

func TestLoggerLevelsAndFormats(t *testing.T) {
	for level, want := range map[string]string{"debug": "debug info warn error", "info": "info warn error", "warn": "warn error", "error": "error"} {
		l, out := newLogger(t, level, "text")
		l.Debug("a.b")
		l.Info("a.b")
		l.Warn("a.b")
		l.Error("a.b")
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, " level=")
			name, message, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if message != "message=a.b" || !strings.HasPrefix(line, "ts=") {
				t.Errorf("line %q has another form", line)
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("level %s prints %v, want %s", level, got, want)
		}
	}
	for _, c := range []struct{ level, format, want string }{
		{"INFO", "json", "logging.level"},
		{"", "json", "logging.level"},
		{"info", "yaml", "logging.format"},
		{"info", "", "logging.format"},
	} {
		if _, err := NewLogger(&bytes.Buffer{}, c.level, c.format); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("NewLogger(%q, %q) = %v, want an error about %s", c.level, c.format, err, c.want)
		}
	}
}

func TestWhatIsPrinted(t *testing.T) {
	at := time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)
	cases := []struct {
		attr slog.Attr
		want string
	}{
		{slog.Int("anything", 7), `"anything":7`},
		{slog.Bool("anything", true), `"anything":true`},
		{slog.Float64("anything", 1.5), `"anything":1.5`},
		{slog.Time("anything", at), `"anything":"2026-11-30T02:00:00Z"`},
		{slog.String("reason", "status_stale"), `"reason":"status_stale"`},
		{slog.Any("reason", status.ProbeFailed), `"reason":"probe_failed"`},
		{slog.Any("reasons", []status.Reason{status.Starting}), `"reasons":["starting"]`},
		{slog.Any("error_class", fault.ClassTimeout), `"error_class":"timeout"`},
		{slog.Any("accepted", []int{2, 3}), `"accepted":[2,3]`},
		{slog.Any("error", fault.New(fault.Sealed, "encrypt", "unseal it")), `"error":"encrypt: OpenBao is sealed: unseal it"`},
		{slog.Any("error", errors.New("a plain one")), `"error":"a plain one"`},
		{slog.Any("error", nil), `"error":null`},
		{slog.String("unheard_of", "x"), `"unheard_of":"[redacted]"`},
	}
	for _, c := range cases {
		l, out := newLogger(t, "info", "json")
		l.LogAttrs(t.Context(), slog.LevelInfo, "a.b", c.attr)
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%s is printed as %s, want %s", c.attr, out, c.want)
		}
	}
}

func TestMessagesAreEventNames(t *testing.T) {
	for message, want := range map[string]string{
		"key.promoted": "key.promoted", "serve.start": "serve.start",
		canary: redacted, "Token: x": redacted, strings.Repeat("a", 41): redacted,
	} {
		l, out := newLogger(t, "info", "json")
		l.Info(message)
		if !strings.Contains(out.String(), `"message":"`+want+`"`) {
			t.Errorf("message %q is printed as %s, want %s", message, out, want)
		}
	}
}
