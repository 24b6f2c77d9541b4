package observe

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// Keys that every record has, in place of slog's own.
const (
	timeKey    = "ts"
	levelKey   = "level"
	messageKey = "message"
)

// The longest event name and the longest key of an attribute, in bytes.
const (
	maxEventName = 40
	maxKeyName   = 40
)

// NewLogger returns a logger that writes one redacted record a line to w. level
// is debug, info, warn or error; format is json or text (design: config-and-cli,
// logging). Anything else is an error that names the configuration field.
//
// A message must be an event name such as "key.promoted", and text attributes
// must have one of the keys that redact.go lists; what is neither comes out as
// [redacted].
//
// Repeated failures of requests are printed once a minute, except at level debug,
// where everything is printed (flood.go).
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	min, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	o := &slog.HandlerOptions{Level: min, ReplaceAttr: redact}
	var h slog.Handler
	switch format {
	case "json":
		h = slog.NewJSONHandler(w, o)
	case "text":
		h = slog.NewTextHandler(w, o)
	default:
		return nil, fmt.Errorf("logging.format: %q is not a format; use json or text", format)
	}
	h = groupHandler{h}
	if min > slog.LevelDebug {
		h = controlFloods(h)
	}
	return slog.New(h), nil
}

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
}

func parseLevel(level string) (slog.Level, error) {
	l, ok := levels[level]
	if !ok {
		return 0, fmt.Errorf("logging.level: %q is not a level; use debug, info, warn or error", level)
	}
	return l, nil
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}

// redact is slog's ReplaceAttr: it gives the built-in attributes the names of
// the design and passes every other one through the redaction policy.
func redact(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 {
		switch a.Key {
		case slog.TimeKey:
			if a.Value.Kind() == slog.KindTime {
				return slog.String(timeKey, a.Value.Time().UTC().Format(time.RFC3339Nano))
			}
		case slog.LevelKey:
			if l, ok := a.Value.Any().(slog.Level); ok {
				return slog.String(levelKey, levelName(l))
			}
		case slog.MessageKey:
			return slog.String(messageKey, eventName(a.Value))
		}
	}
	return slog.Attr{Key: safeKey(a.Key), Value: safeValue(a.Key, a.Value)}
}

// eventName is the message, if it is one: lower-case letters, digits, dots and
// underscores (design: observability, logs). Anything else is redacted; that
// also covers an attribute that a caller happens to call "msg".
func eventName(v slog.Value) string {
	if v.Kind() != slog.KindString || len(v.String()) > maxEventName {
		return redacted
	}
	if !isWord(strings.ReplaceAll(v.String(), ".", "_")) {
		return redacted
	}
	return v.String()
}

// isWord reports whether s is made of lower-case letters, digits and underscores.
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
