package observe

import (
	"context"
	"log/slog"
)

// groupHandler gives the names of groups the rule of keys (safeKey): slog passes
// them to no ReplaceAttr, so a value that a caller put into the place of a name
// would be printed as it is.
type groupHandler struct{ next slog.Handler }

// Enabled is part of slog.Handler.
func (h groupHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithGroup is part of slog.Handler.
func (h groupHandler) WithGroup(name string) slog.Handler {
	return groupHandler{h.next.WithGroup(safeKey(name))}
}

// WithAttrs is part of slog.Handler.
func (h groupHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return groupHandler{h.next.WithAttrs(withSafeGroups(attrs))}
}

// Handle is part of slog.Handler. A record without groups, which is what the
// provider makes, goes on as it is.
func (h groupHandler) Handle(ctx context.Context, r slog.Record) error {
	grouped := false
	r.Attrs(func(a slog.Attr) bool {
		grouped = mayBeGroup(a.Value)
		return !grouped
	})
	if !grouped {
		return h.next.Handle(ctx, r)
	}
	safe := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		safe.AddAttrs(withSafeGroup(a))
		return true
	})
	return h.next.Handle(ctx, safe)
}

func mayBeGroup(v slog.Value) bool {
	return v.Kind() == slog.KindGroup || v.Kind() == slog.KindLogValuer
}

func withSafeGroups(attrs []slog.Attr) []slog.Attr {
	safe := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		safe[i] = withSafeGroup(a)
	}
	return safe
}

// withSafeGroup resolves a value once and for all: one that could resolve again,
// to another group, would be printed unseen. What is no group is left to redact.
func withSafeGroup(a slog.Attr) slog.Attr {
	if !mayBeGroup(a.Value) {
		return a
	}
	a.Value = a.Value.Resolve()
	if a.Value.Kind() != slog.KindGroup {
		return a
	}
	return slog.Attr{Key: safeKey(a.Key), Value: slog.GroupValue(withSafeGroups(a.Value.Group())...)}
}
