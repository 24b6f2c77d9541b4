package openbao

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// journey is the context of a call's request. A dial outlives the request that
// it was made for, and finds the journey among its context's values.
type journey struct {
	context.Context
	// dialed is set when no idle connection was there for the request.
	dialed atomic.Bool
}

type journeyKey struct{}

// Value is part of context.Context.
func (j *journey) Value(key any) any {
	if key == (journeyKey{}) {
		return j
	}
	return j.Context.Value(key)
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// noteDials makes the transport's dials tell their journeys.
func noteDials(t *http.Transport) {
	noting := func(dial dialer) dialer {
		if dial == nil {
			return nil
		}
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			if j, ok := ctx.Value(journeyKey{}).(*journey); ok {
				j.dialed.Store(true)
			}
			return dial(ctx, network, address)
		}
	}
	t.DialContext, t.DialTLSContext = noting(t.DialContext), noting(t.DialTLSContext)
}

// distrust drops the idle connections after a request on one of them found no
// way to OpenBao: the others may be as dead without anybody having noticed. A
// peer that lost its state sends no word until it is written to, and each of
// them would cost one more call.
//
// They stay where they are proven to be alive: after a request that had to dial,
// because then none was idle when it began; and after one that began before the
// last time, because what is idle now has served a request since. Otherwise an
// OpenBao that is slow under load would have to make handshakes on top.
func (c *Conn) distrust(x exchange) {
	if x.journey.dialed.Load() {
		return
	}
	if last := c.dropped.Load(); last != nil && x.start.Before(*last) {
		return
	}
	now := time.Now()
	c.dropped.Store(&now)
	c.dropIdle()
}

func (c *Conn) dropIdle() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// elsewhereEvery is the least time between two times that idle connections are
// dropped for what OpenBao answered: where no other server is to be found, there
// must not be a handshake for every call.
const elsewhereEvery = time.Second

// lookElsewhere reports whether a failure says that the server at the other end
// can serve nobody now while another one behind the same load balancer perhaps
// can: it is sealed, has no leader, or is not the active node. Connections that
// are kept alive would hold us to it for as long as they are used. The call
// itself is not repeated.
func (c *Conn) lookElsewhere(err error, now time.Time) bool {
	var f *fault.Error
	if !errors.As(err, &f) || f.HTTPStatus < 500 && (f.HTTPStatus < 300 || f.HTTPStatus >= 400) {
		return false
	}
	last := c.lookedAt.Load()
	return (last == nil || now.Sub(*last) >= elsewhereEvery) && c.lookedAt.CompareAndSwap(last, &now)
}
