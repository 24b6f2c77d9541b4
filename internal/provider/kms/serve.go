package kms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	grpcstatus "google.golang.org/grpc/status"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
)

// method is one RPC: its name and its cap.
type method struct {
	name   string
	cap    int64
	active atomic.Int64
}

func (m *method) init(name string, cap int) { m.name, m.cap = name, int64(cap) }

// enter takes one of the method's places if one is free. It never waits.
func (m *method) enter() bool {
	for {
		n := m.active.Load()
		if n >= m.cap {
			return false
		}
		if m.active.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (m *method) leave() { m.active.Add(-1) }

// An answerer turns a request that arrived at a moment into a response. The
// binding it used is for the log.
type answerer[Req, Resp any] func(ctx context.Context, now time.Time, req *Req) (*Resp, *identity.Binding, error)

// serve is the way of every request: a place, the answer, and then whatever
// happened is counted, logged and mapped to what may leave.
func serve[Req, Resp any](s *Service, ctx context.Context, m *method, req *Req, answer answerer[Req, Resp]) (resp *Resp, err error) {
	if !m.enter() {
		o := outcome{cause: fault.ConcurrencyLimited}
		if s.correlate != nil {
			_, o.correlation = s.correlated(ctx, req)
		}
		s.observer.RequestRejected(m.name)
		s.logRequest(ctx, m, o)
		return nil, outward(fault.ConcurrencyLimited)
	}
	start := time.Now()
	s.observer.RequestStarted(m.name)
	var o outcome
	defer func() {
		o.cause, o.err = causeOf(ctx, err), err
		// The value of a panic may hold anything. Where it happened may not.
		if recover() != nil {
			o.cause, o.err, o.panicAt = fault.Panicked, nil, panicOrigin()
		}
		o.took = time.Since(start)
		m.leave()
		s.observer.RequestDone(m.name, o.cause.Code(), o.cause.Class(), o.took)
		s.logRequest(ctx, m, o)
		if o.cause != fault.None {
			resp, err = nil, outward(o.cause)
		}
	}()
	within := ctx
	if s.correlate != nil {
		within, o.correlation = s.correlated(ctx, req)
	}
	resp, o.binding, err = answer(within, start, req)
	return resp, err
}

// correlated begins the correlation of a request if it has a uid.
func (s *Service) correlated(ctx context.Context, req any) (context.Context, func() []slog.Attr) {
	r, ok := req.(interface{ GetUid() string })
	if !ok {
		return ctx, nil
	}
	within, attrs := s.correlate(ctx, r.GetUid())
	if within == nil {
		within = ctx
	}
	return within, attrs
}

// refuse counts and logs a request that never became one.
func (s *Service) refuse(ctx context.Context, m *method, cause fault.Cause, err error) error {
	s.observer.RequestStarted(m.name)
	s.observer.RequestDone(m.name, cause.Code(), cause.Class(), 0)
	s.logRequest(ctx, m, outcome{cause: cause, err: err})
	return outward(cause)
}

// outcome is what became of a request.
type outcome struct {
	cause   fault.Cause
	binding *identity.Binding // nil if none was found
	took    time.Duration
	err     error
	panicAt string
	// correlation gives the attributes of debug correlation; nil without it.
	correlation func() []slog.Attr
}

// causeOf lets the caller's own cancellation or deadline win over the operation
// that failed (design: kms-service, error policy).
func causeOf(ctx context.Context, err error) fault.Cause {
	if err == nil {
		return fault.None
	}
	if ctx.Err() != nil {
		// As a deadline passes, gRPC may cancel the call a moment before the
		// context's own timer fires.
		if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
			return fault.DeadlineExceeded
		}
		return fault.CauseOf(ctx.Err())
	}
	return fault.CauseOf(err)
}

// outward is the only error that leaves: the cause's code and fixed text.
func outward(c fault.Cause) error { return grpcstatus.Error(c.Code(), c.Text()) }

// logRequest logs a request: a success for debugging, a failure as a warning, a
// panic as an error (design: observability, logs).
func (s *Service) logRequest(ctx context.Context, m *method, o outcome) {
	level := slog.LevelWarn
	switch o.cause {
	case fault.None:
		level = slog.LevelDebug
	case fault.Panicked:
		level = slog.LevelError
	}
	if s.log.Enabled(ctx, level) {
		s.log.LogAttrs(ctx, level, "kms.request", o.attributes(m.name)...)
	}
}

func (o outcome) attributes(method string) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("operation", method),
		slog.String("status", o.cause.Code().String()),
		slog.Float64("duration_ms", float64(o.took.Microseconds())/1000),
	}
	if o.binding != nil {
		attrs = append(attrs,
			slog.String("key_id_hash", o.binding.KeyIDHash()),
			slog.Int("transit_key_version", o.binding.Version()))
	}
	if o.cause != fault.None {
		attrs = append(attrs,
			slog.String("error_class", string(o.cause.Class())),
			slog.String("error", described(o.cause, o.err)))
	}
	if o.panicAt != "" {
		attrs = append(attrs, slog.String("panic_at", o.panicAt))
	}
	if o.correlation != nil {
		attrs = append(attrs, o.correlation()...)
	}
	return attrs
}

// described is the failure in words. Only a fault's own words are known to hold
// nothing secret.
func described(cause fault.Cause, err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Cause == cause {
		return f.Error()
	}
	return cause.Text()
}

// panicOrigin names the function and line that panicked. It must be called by
// the deferred function that recovered.
func panicOrigin() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	panicking := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicking = true
		case panicking && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s %s:%d", path.Base(f.Function), path.Base(f.File), f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
