package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A secret in the place of a group's name is not printed, wherever a group can be.
func TestNoSecretIsTheNameOfAGroup(t *testing.T) {
	s := scanner(t)
	n := slog.Int("n", 1)
	group := func(name string, attrs ...any) slog.Attr { return slog.Group(name, attrs...) }
	places := map[string]func(l *slog.Logger, event, name string){
		"of a logger":         func(l *slog.Logger, event, name string) { l.WithGroup(name).Warn(event, n) },
		"within a group":      func(l *slog.Logger, event, name string) { l.WithGroup("g").WithGroup(name).With(n).Warn(event) },
		"of an attribute":     func(l *slog.Logger, event, name string) { l.Warn(event, group(name, n)) },
		"behind others":       func(l *slog.Logger, event, name string) { l.Warn(event, n, n, n, n, n, n, n, group(name, n)) },
		"within an attribute": func(l *slog.Logger, event, name string) { l.Warn(event, group("g", group("h", group(name, n)))) },
		"of a bound one":      func(l *slog.Logger, event, name string) { l.With(group("g", group(name, n))).Warn(event) },
		"of a LogValuer": func(l *slog.Logger, event, name string) {
			l.Warn(event, "g", logs{slog.GroupValue(slog.Any(name, logs{slog.GroupValue(n)}))})
		},
		"of a bound LogValuer": func(l *slog.Logger, event, name string) {
			l.With(name, logs{slog.GroupValue(n)}).Warn(event)
		},
	}
	for where, log := range places {
		for _, format := range []string{"json", "text"} {
			for _, level := range []string{"debug", "info"} {
				for _, secret := range append(shaped, canary, keyIDCanary) {
					l, out := newLogger(t, level, format)
					log(l, "a.b", secret)
					log(l, "kms.request", secret)
					log(l, "kms.request", secret)
					l.Error(lastEvent) // flood control tells what it kept
					s.Bytes(t, "the name "+where+" as "+format, out.Bytes())
					if !strings.Contains(out.String(), redacted) {
						t.Errorf("the name %s as %s is not marked as redacted: %s", where, format, out)
					}
				}
			}
		}
	}
}

// A value in a group obeys the same rule as one outside, and a LogValuer is asked
// once: what it says later is not what was looked at.
func TestValuesOfGroupsAreRedacted(t *testing.T) {
	l, out := newLogger(t, "info", "json")
	l.Info("a.b", slog.Group("g", "status", "ok", "path", canary, "error", logs{slog.StringValue(pathCanary)}), "changes", &changes{})
	want := `"g":{"status":"ok","path":"[redacted]","error":"[redacted]"},"changes":{"first":1}}`
	if !strings.Contains(out.String(), want) {
		t.Errorf("printed %s, want %s", out, want)
	}
}

// changes is a group of another name each time that it is asked.
type changes struct{ asked bool }

func (c *changes) LogValue() slog.Value {
	if c.asked {
		return slog.GroupValue(slog.Group(pathCanary, "n", 1))
	}
	c.asked = true
	return slog.GroupValue(slog.Int("first", 1))
}

// Groups with names of the log come out as slog itself prints them.
func TestGroupsArePrintedAsSlogDoes(t *testing.T) {
	n := slog.Int("n", 1)
	for name, log := range map[string]func(l *slog.Logger){
		"none":                    func(l *slog.Logger) { l.With("a", 1).Info("a.b", "n", 1) },
		"a logger's":              func(l *slog.Logger) { l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").Info("a.b", "n", 1) },
		"a logger's, empty":       func(l *slog.Logger) { l.With("a", 1).WithGroup("g").Info("a.b") },
		"without a name":          func(l *slog.Logger) { l.WithGroup("").Info("a.b", slog.Group("", "n", 1)) },
		"an attribute's":          func(l *slog.Logger) { l.Info("a.b", "a", 1, slog.Group("g", "n", 1, slog.Group("h", n, n)), "z", 2) },
		"an empty attribute's":    func(l *slog.Logger) { l.Info("a.b", slog.Group("g"), n) },
		"a LogValuer's":           func(l *slog.Logger) { l.Info("a.b", "g", logs{slog.GroupValue(n)}, "m", logs{slog.IntValue(2)}) },
		"more than a record fits": func(l *slog.Logger) { l.Info("a.b", n, n, n, n, n, n, n, n, slog.Group("g", n), n) },
	} {
		var got, want bytes.Buffer
		fixed := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				a.Value = slog.TimeValue(time.Time{})
			}
			return a
		}}
		log(slog.New(groupHandler{slog.NewJSONHandler(&got, fixed)}))
		log(slog.New(slog.NewJSONHandler(&want, fixed)))
		if got.String() != want.String() || got.Len() == 0 {
			t.Errorf("%s: printed %s, want %s", name, &got, &want)
		}
	}
}
