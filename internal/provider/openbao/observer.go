package openbao

import (
	"context"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// StatusOK is the status of a request that succeeded; any other is a
// fault.Class.
const StatusOK = "ok"

// Done is a request that has ended.
type Done struct {
	Operation Operation
	// Status is StatusOK or the fault.Class of the failure.
	Status string
	// Took is how long the caller waited.
	Took time.Duration
	// RequestID is OpenBao's id of the request, as Trace.RequestID describes it.
	// It is empty unless Options.RequestIDs is set or the request was traced, and
	// for every failure.
	RequestID string
}

// Observer is told of every request that was sent, whatever became of it. A call
// that the circuit breaker refused was not sent, and nobody is told of it: its
// caller sees fault.BreakerOpen, and Conn.BreakerState shows it to everybody.
//
// Its methods are called from many goroutines at once, on the path of each
// request, and must not block.
type Observer interface {
	// RequestDone is told of a request made under ctx, which may have ended.
	RequestDone(ctx context.Context, d Done)
}

// observe passes on that a request has ended. id is empty if it is not known or
// not asked for.
func (c *Conn) observe(x exchange, id string, err error) {
	if id != "" {
		if trace := traceOf(x.caller); trace != nil {
			kept := id // so that only a traced request pays for it
			trace.id.Store(&kept)
		}
	}
	if c.observer == nil {
		return
	}
	status := StatusOK
	if err != nil {
		status = string(fault.ClassOf(err))
	}
	c.observer.RequestDone(x.caller, Done{
		Operation: x.op,
		Status:    status,
		Took:      time.Since(x.start),
		RequestID: id,
	})
}
