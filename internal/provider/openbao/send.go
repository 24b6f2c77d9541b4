package openbao

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// exchange is what the classification of one request needs to know about it.
type exchange struct {
	op Operation
	// caller is the caller's context, without the deadline that we added.
	caller context.Context
	// limit is the deadline that we added, for the error's text; 0 if none.
	limit time.Duration
	// start is when the caller began to wait.
	start time.Time
	// journey tells whether the request had to dial; nil if nobody knows.
	journey *journey
}

// send makes one round trip and reads the answer to its end or its limit. It
// returns the body of a 2xx answer; everything else is a *fault.Error. The
// request's body is closed in every case.
func (c *Conn) send(x exchange, r *http.Request) (*Buffer, error) {
	answer, err := c.roundTrip(x, r)
	switch {
	case err == nil:
	case c.verdict(x, err) == errNoAnswer:
		c.distrust(x)
	case c.lookElsewhere(err, time.Now()):
		c.dropIdle()
	}
	return answer, err
}

func (c *Conn) roundTrip(x exchange, r *http.Request) (*Buffer, error) {
	// The transport's own RoundTrip and not an http.Client: it follows no
	// redirect and puts no URL into errors.
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		return nil, x.transportFailure(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 {
		// The body of a 101 is the connection itself, which no deadline ends.
		return nil, x.statusFailure(resp.StatusCode, nil)
	}

	ok := resp.StatusCode < 300
	limit := int64(limitError)
	if ok {
		limit = x.op.limit()
	}
	body, err := readAll(resp.Body, limit)
	switch {
	case errors.Is(err, errTooLarge):
		f := fault.New(fault.Unavailable, x.op.Words(),
			"the answer is larger than %d bytes: check what answers at openbao.address", limit)
		f.HTTPStatus = resp.StatusCode
		return nil, f
	case err != nil:
		return nil, x.transportFailure(err)
	case ok:
		return body, nil
	}
	defer body.Release()
	return nil, x.statusFailure(resp.StatusCode, body.B)
}
