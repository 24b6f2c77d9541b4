package openbao

import (
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a token or another credential on its way to a header. However it is
// printed, encoded or logged, it reads "[redacted]" (design: overview,
// invariant 10). The zero Secret holds nothing.
//
// Two Secrets are equal under == only if one is a copy of the other, so a
// holder can tell the very token that was rejected from a later one.
type Secret struct {
	// A pointer, because fmt prints the fields of a struct that it meets as an
	// unexported field without asking their methods.
	value *string
}

// NewSecret wraps value. An empty value gives the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal returns the value itself: for a request header and nothing else.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether s holds nothing.
func (s Secret) IsZero() bool { return s.value == nil }

// String returns "[redacted]".
func (s Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (s Secret) GoString() string { return redacted }

// Format prints "[redacted]" under every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText encodes as "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON encodes as "[redacted]".
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue logs as "[redacted]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
