package observe

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
)

const (
	// floodEvery is how often a request failure that goes on is printed.
	floodEvery = time.Minute
	// maxFloods bounds the failures that are told apart at one time. What comes
	// on top counts as one failure for each event.
	maxFloods = 64
)

// floodEvents are the events of which a failing OpenBao makes thousands a second.
// Probes have their own control, and every other event is rare and is printed
// always.
var floodEvents = setOf("kms.request", "openbao.request", "auth.login", "auth.renewal", "auth.recovery")

// lastEvent is the last record of a process.
const lastEvent = "serve.shutdown"

// floodHandler prints the first of identical failures of a request and leaves out
// its repeats. Once a minute while it goes on, one line says how many were left
// out (repeated) and since when (since). Identical is what has the same event,
// level, operation, method, status, error_class, reason, key_id_hash and
// transit_key_version, and the same error but for what it counts (failure.go).
//
// What was left out is also told when another failure of the same operation
// begins, when a success of it is logged, and at shutdown. Successes of requests
// are debug records, which nobody makes at the levels where this handler works:
// the end of a failure shows at the latest a minute later, and by the absence of
// further lines. A failure that comes back after a minute without it is a first
// one again.
//
// Only warnings of floodEvents are ever left out. A panic is an error, so each is
// printed.
type floodHandler struct {
	next   slog.Handler
	floods *floods
	bound  failure // of WithAttrs
}

// controlFloods puts flood control before next.
func controlFloods(next slog.Handler) slog.Handler {
	return &floodHandler{next: next, floods: &floods{seed: maphash.MakeSeed(), open: map[uint64]*flood{}}}
}

// Enabled is part of slog.Handler.
func (h *floodHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs is part of slog.Handler.
func (h *floodHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		with.bound.take(a)
	}
	return &with
}

// WithGroup is part of slog.Handler. Attributes tell a failure by their key,
// whatever group they are in.
func (h *floodHandler) WithGroup(name string) slog.Handler {
	with := *h
	with.next = h.next.WithGroup(name)
	return &with
}

// Handle is part of slog.Handler.
func (h *floodHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == lastEvent {
		h.floods.closeAll()
	}
	if r.Level > slog.LevelWarn || !floodEvents[r.Message] {
		return h.next.Handle(ctx, r)
	}
	var own failure
	r.Attrs(func(a slog.Attr) bool {
		own.take(a)
		return true
	})
	all := h.bound
	all.merge(&own)
	id := h.floods.identify(r, &all)
	if r.Level < slog.LevelWarn {
		h.floods.closeGroup(id.group)
		return h.next.Handle(ctx, r)
	}
	if h.floods.repeats(id, r, &own, h.next) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// floods are the failures that are going on, by their identity. mu guards all of
// it and every flood; nothing is printed under it.
type floods struct {
	seed maphash.Seed

	mu   sync.Mutex
	open map[uint64]*flood
}

// flood is one failure that was printed within the last minute. Its timer ends
// that minute.
type flood struct {
	id       floodID
	next     slog.Handler
	event    string
	level    slog.Level
	own      failure // what next does not print by itself
	since    time.Time
	repeated int
	timer    *time.Timer
}

// repeats counts a failure that is going on, and begins a new one. In that case
// it also tells what was left out of the other failures of the same operation:
// the failure has changed.
func (fs *floods) repeats(id floodID, r slog.Record, own *failure, next slog.Handler) bool {
	fs.mu.Lock()
	f := fs.open[id.failure]
	if f == nil && len(fs.open) >= maxFloods {
		id.failure, id.group, own = id.event, id.event, &failure{}
		f = fs.open[id.failure]
	}
	if f != nil {
		f.repeated++
		f.own.text[failedError] = own.text[failedError]
		fs.mu.Unlock()
		return true
	}
	var lines []line
	for _, other := range fs.open {
		if other.id.group == id.group {
			lines = other.tell(lines)
		}
	}
	f = &flood{id: id, next: next, event: r.Message, level: r.Level, own: *own, since: time.Now()}
	f.timer = time.AfterFunc(floodEvery, func() { fs.minute(f) })
	fs.open[id.failure] = f
	fs.mu.Unlock()
	printAll(lines)
	return false
}

// minute is the end of a failure's minute. It runs in the timer's goroutine.
func (fs *floods) minute(f *flood) {
	fs.mu.Lock()
	if fs.open[f.id.failure] != f {
		fs.mu.Unlock()
		return // closed while the timer fired
	}
	lines := f.tell(nil)
	if len(lines) == 0 {
		delete(fs.open, f.id.failure)
	} else {
		f.timer.Reset(floodEvery)
	}
	fs.mu.Unlock()
	printAll(lines)
}

// closeGroup ends the failures of one operation, which has succeeded.
func (fs *floods) closeGroup(group uint64) {
	fs.close(func(f *flood) bool { return f.id.group == group })
}

func (fs *floods) closeAll() { fs.close(func(*flood) bool { return true }) }

func (fs *floods) close(ended func(*flood) bool) {
	fs.mu.Lock()
	var lines []line
	for id, f := range fs.open {
		if ended(f) {
			lines = f.tell(lines)
			f.timer.Stop()
			delete(fs.open, id)
		}
	}
	fs.mu.Unlock()
	printAll(lines)
}

// line is what is to be printed of a flood once the lock is released.
type line struct {
	next   slog.Handler
	record slog.Record
}

// tell appends the line about what was left out, if anything was, and counts from
// zero again. The caller holds mu.
func (f *flood) tell(lines []line) []line {
	if f.repeated == 0 {
		return lines
	}
	now := time.Now()
	r := slog.NewRecord(now, f.level, f.event, 0)
	r.AddAttrs(f.own.attrs()...)
	r.AddAttrs(slog.Int("repeated", f.repeated), slog.Time("since", f.since.UTC()))
	f.repeated, f.since = 0, now
	return append(lines, line{f.next, r})
}

func printAll(lines []line) {
	for _, l := range lines {
		_ = l.next.Handle(context.Background(), l.record) // as slog itself does
	}
}
