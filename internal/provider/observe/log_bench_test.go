package observe

import (
	"io"
	"log/slog"
	"testing"
)

// BenchmarkSuppressedLine is a repeat that flood control leaves out.
func BenchmarkSuppressedLine(b *testing.B) {
	l := benchLogger(b)
	attrs := failureAttrs()
	b.ReportAllocs()
	for b.Loop() {
		l.LogAttrs(b.Context(), slog.LevelWarn, "kms.request", attrs...)
	}
}

func BenchmarkSuppressedLineParallel(b *testing.B) {
	l := benchLogger(b)
	attrs := failureAttrs()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.LogAttrs(b.Context(), slog.LevelWarn, "kms.request", attrs...)
		}
	})
}

// BenchmarkPrintedLine is the same line where nothing is left out.
func BenchmarkPrintedLine(b *testing.B) {
	l := benchLogger(b)
	attrs := failureAttrs()
	b.ReportAllocs()
	for b.Loop() {
		l.LogAttrs(b.Context(), slog.LevelWarn, "some.event", attrs...)
	}
}

func BenchmarkDisabledLine(b *testing.B) {
	l := benchLogger(b)
	attrs := failureAttrs()
	b.ReportAllocs()
	for b.Loop() {
		l.LogAttrs(b.Context(), slog.LevelDebug, "kms.request", attrs...)
	}
}

func benchLogger(b *testing.B) *slog.Logger {
	b.Helper()
	l, err := NewLogger(io.Discard, "info", "json")
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func failureAttrs() []slog.Attr {
	return []slog.Attr{
		slog.String("operation", "Decrypt"), slog.String("status", "Unavailable"), slog.Float64("duration_ms", 1.5),
		slog.String("key_id_hash", hashOfKey), slog.Int("transit_key_version", 3), slog.String("error_class", "openbao_sealed"),
		slog.String("error", "decrypt: OpenBao is sealed: unseal it, or check the load balancer in front of it (HTTP 503)"),
	}
}
