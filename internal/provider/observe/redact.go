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

// textKeys are the attributes whose text is printed. The list is the schema of
// the logs: text under any other key is redacted, so that a new attribute is
// printed only after somebody decided, here, that it never holds a secret, an
// OpenBao path, a key name or a key_id (design: observability, logs).
var textKeys = map[string]bool{
	// What happened.
	"operation": true, "status": true, "reason": true, "probe_kind": true,
	"error": true, "error_class": true, "next_step": true, "state": true, "signal": true, "phase": true,
	// Which key, as a hash.
	"key_id_hash": true, "previous_key_id_hash": true, "fingerprint": true, "state_hash": true,
	// Debug correlation.
	"request_uid_hash": true, "openbao_request_id": true, "incident_id": true, "expires_at": true,
	// The process and this node: no path of OpenBao.
	"version": true, "commit": true, "build_date": true, "go_version": true, "method": true,
	"address": true, "panic_at": true, "socket": true, "config_file": true, "state_file": true,
}

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
	if !textKeys[key] {
		return slog.StringValue(redacted)
	}
	return slog.StringValue(text)
}

func safeAny(key string, v any) slog.Value {
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case fault.Class:
		return slog.StringValue(string(v))
	case status.Reason:
		return slog.StringValue(string(v))
	case []status.Reason:
		return slog.AnyValue(v)
	case []int: // Transit versions
		return slog.AnyValue(v)
	case error:
		return textOf(key, safeError(v))
	}
	return slog.StringValue(redacted)
}

// safeError is err's text, unless it holds a URL: that of a request to OpenBao
// names the mount and the key. Errors that passed through fault never do.
func safeError(err error) string {
	text := err.Error()
	if u, ok := errors.AsType[*url.Error](err); ok && strings.Contains(text, u.URL) {
		return redacted
	}
	return text
}
