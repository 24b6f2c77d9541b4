package openbao

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// newLibraryClient returns the OpenBao library's client on c's transport, with
// everything off that it would do on its own: the environment, retries,
// redirects, the rate limiter.
func newLibraryClient(c *Conn) (*api.Client, error) {
	client, err := api.NewClient(&api.Config{
		Address:            c.base.String(),
		HttpClient:         &http.Client{Transport: libraryTransport{c}},
		MaxRetries:         0,
		CheckRetry:         func(context.Context, *http.Response, error) (bool, error) { return false, nil },
		DisableEnvironment: true,
		DisableRedirects:   true,
	})
	if err != nil {
		return nil, errors.New("openbao.address: the OpenBao library does not accept it: check the URL")
	}
	return client, nil
}

type exchangeKey struct{}

// Use runs fn with the OpenBao library's client, for one request of the given
// operation: login, renewal, capabilities. The client is fn's own, has no token
// and must be given the context that fn gets.
//
// The request ends with ctx; Timeout bounds it only if ctx has no deadline,
// because a login may be allowed more time than other requests. Failures are as
// those of Call.
func (c *Conn) Use(ctx context.Context, op Operation, fn func(context.Context, *api.Client) (*api.Secret, error)) (*api.Secret, error) {
	x := exchange{op: op, caller: ctx, start: time.Now(), journey: &journey{Context: ctx}}
	var limited context.Context = x.journey
	if _, ok := ctx.Deadline(); !ok {
		x.limit = c.timeout
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(limited, c.timeout)
		defer cancel()
	}
	// WithNamespace copies the client without reading the environment; the
	// library's Clone would read it.
	answer, err := fn(context.WithValue(limited, exchangeKey{}, x), c.client.WithNamespace(c.namespace))
	err = x.clientFailure(err)
	c.observe(x, c.secretID(x, answer), err)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// clientFailure finds the *fault.Error that libraryTransport produced inside
// what the library and net/http made of it. The library's own errors hold URLs
// and are dropped.
func (x exchange) clientFailure(err error) error {
	if err == nil {
		return nil
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	if ended := contextError(x.caller); ended != nil {
		return x.callerGone(ended)
	}
	return fault.New(fault.Unavailable, x.op.Words(), "the answer is not what OpenBao's library understands: check what answers at openbao.address")
}

// libraryTransport makes the library's requests go through send: the library
// sees only complete, bounded, successful answers.
type libraryTransport struct{ conn *Conn }

func (t libraryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	x, ok := r.Context().Value(exchangeKey{}).(exchange)
	if !ok {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errors.New("the library's client was used outside of Use")
	}
	body, err := t.conn.send(x, r)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	return &http.Response{
		Status:     "200 OK",
		StatusCode: http.StatusOK,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(bytes.Clone(body.B))),
		ContentLength: int64(len(body.B)),
		Request:       r,
	}, nil
}
