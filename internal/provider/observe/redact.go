package observe

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/status"
)

// redacted stands in a log for a value that must not be there.
const redacted = "[redacted]"

// safeValue returns v if it may be printed under key, else redacted. Numbers,
// booleans, durations and times pass; text passes under a known key; anything
// else only if its type is known to be harmless. Types that bear secrets need
// not know about this: what is unknown is redacted.
func safeValue(key string, v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindBool, slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindDuration, slog.KindTime:
		return v
	case slog.KindString:
		return textOf(key, v.String())
	case slog.KindAny:
		return safeAny(key, v.Any())
	}
	return slog.StringValue(redacted)
}

func textOf(key, text string) slog.Value {
	if fits := textKeys[key]; fits == nil || text != "" && !fits(text) {
		return slog.StringValue(redacted)
	}
	return slog.StringValue(text)
}

// safeKey is key, if a program could have written it. A key that is anything else
// is a value that a caller put into a key's place.
func safeKey(key string) string {
	if len(key) > maxKeyName || !isWord(key) {
		return redacted
	}
	return key
}

func safeAny(key string, v any) slog.Value {
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case fault.Class:
		return memberOf(classes, string(v))
	case status.Reason:
		return memberOf(reasons, string(v))
	case []status.Reason:
		for _, r := range v {
			if !reasons[string(r)] {
				return slog.StringValue(redacted)
			}
		}
		return slog.AnyValue(v)
	case []int: // Transit versions
		return slog.AnyValue(v)
	case error:
		return textOf(key, safeError(v))
	}
	return slog.StringValue(redacted)
}

func memberOf(set map[string]bool, s string) slog.Value {
	if s != "" && !set[s] {
		s = redacted
	}
	return slog.StringValue(s)
}

// safeError is err's text, unless it holds a URL: that of a request to OpenBao
// names the mount and the key. Errors that passed through fault never do. An
// error whose own text panics must not take the caller of the log with it.
func safeError(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = redacted
		}
	}()
	text = err.Error()
	if u, ok := errors.AsType[*url.Error](err); ok && strings.Contains(text, u.URL) {
		return redacted
	}
	return text
}
