package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// maxCorrelation is the longest time for which debug correlation may be on.
const maxCorrelation = time.Hour

// CorrelationOptions are logging.debugCorrelation and what it needs.
type CorrelationOptions struct {
	// Enabled, TTL and IncidentID are the configuration's. TTL is above 0 and at
	// most 1 h; IncidentID has the form that config asks for.
	Enabled    bool
	TTL        time.Duration
	IncidentID string
	// Level is logging.level, which must be debug.
	Level string
	// Logger gets correlation.started and correlation.expired. Required.
	Logger *slog.Logger
	// Trace makes a context within which the IDs of requests to OpenBao are kept.
	// The function that it returns tells the last of them, "" if there was none.
	// Trace may be nil: no such ID is logged then.
	Trace func(ctx context.Context) (context.Context, func() string)
}

// Correlation connects the requests of the API server with OpenBao's audit log
// during one incident (design: observability, debug correlation): while it is on,
// a request's record says the hash of the request's uid, the ID of OpenBao's
// answer, the incident and the moment at which all this ends. It ends by itself,
// in monotonic time, and cannot be turned on again in the same process.
//
// A nil Correlation is one that is off. Methods are safe for concurrent use.
type Correlation struct {
	o       CorrelationOptions
	end     time.Time   // with a monotonic reading
	always  []slog.Attr // incident_id and expires_at
	expired atomic.Bool // no need to look at the clock any more

	once  sync.Once // the end is logged, or nobody wants to hear of it
	timer *time.Timer
}

// NewCorrelation turns debug correlation on, or returns nil when it is not
// enabled. It refuses, naming the field, what config refuses too. Close must be
// called.
func NewCorrelation(o CorrelationOptions) (*Correlation, error) {
	if !o.Enabled {
		return nil, nil
	}
	switch {
	case o.Level != "debug":
		return nil, errors.New("logging.debugCorrelation.enabled: needs logging.level debug; write debug there, or false here")
	case !isIncident(o.IncidentID):
		return nil, errors.New("logging.debugCorrelation.incidentId: is no incident's number or name; write at most 64 letters, digits and . _ : -")
	case o.TTL <= 0 || o.TTL > maxCorrelation:
		return nil, fmt.Errorf("logging.debugCorrelation.ttl: %v is not between 1ms and 1h; shorten it", o.TTL)
	}
	end := time.Now().Add(o.TTL)
	c := &Correlation{o: o, end: end, always: []slog.Attr{
		slog.String("incident_id", o.IncidentID),
		slog.String("expires_at", end.UTC().Format(time.RFC3339)),
	}}
	c.log("correlation.started")
	// Its goroutine ends at once, or Close stops the timer.
	c.timer = time.AfterFunc(o.TTL, c.expire)
	return c, nil
}

// Correlate begins the correlation of one request. The context is to be passed on
// to OpenBao; the function is to be asked for the attributes of the request's
// record once the request has ended. When correlation is off the context is ctx
// itself and the function nil. uid is the API server's; it may be empty, and is
// never logged itself.
func (c *Correlation) Correlate(ctx context.Context, uid string) (context.Context, func() []slog.Attr) {
	if !c.on() {
		return ctx, nil
	}
	traced, lastID := ctx, func() string { return "" }
	if c.o.Trace != nil {
		traced, lastID = c.o.Trace(ctx)
	}
	return traced, func() []slog.Attr {
		if !c.on() {
			return nil // it expired while the request was being answered
		}
		var attrs []slog.Attr
		if uid != "" {
			attrs = append(attrs, slog.String("request_uid_hash", uidHash(uid)))
		}
		if id := lastID(); id != "" {
			attrs = append(attrs, slog.String("openbao_request_id", id))
		}
		return append(attrs, c.always...)
	}
}

// Close ends the correlation. Nothing is logged of it any more.
func (c *Correlation) Close() {
	if c == nil {
		return
	}
	c.once.Do(func() {})
	c.timer.Stop()
	c.expired.Store(true)
}

func (c *Correlation) on() bool {
	switch {
	case c == nil || c.expired.Load():
		return false
	case time.Now().Before(c.end):
		return true
	}
	// The timer is late.
	c.expire()
	return false
}

func (c *Correlation) expire() {
	c.expired.Store(true)
	c.once.Do(func() { c.log("correlation.expired") })
}

func (c *Correlation) log(event string) {
	c.o.Logger.LogAttrs(context.Background(), slog.LevelInfo, event, c.always...)
}

// uidHash lets an operator who knows a uid find it:
//
//	printf %s UID | sha256sum
func uidHash(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return "sha256:" + hex.EncodeToString(sum[:])
}
