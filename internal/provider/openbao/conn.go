package openbao

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openbao/openbao/api/v2"
)

// Options describe one OpenBao.
type Options struct {
	// Address is the configuration's openbao.address: https, a host and
	// optionally a port. Required.
	Address string
	// CAFile is the absolute path of the PEM file with the only certificates
	// that are trusted. Required for HTTPS.
	CAFile string
	// ServerName is the name that the server's certificate must carry. Required
	// for HTTPS.
	ServerName string
	// Namespace is the OpenBao namespace of every request; empty for none.
	Namespace string
	// Timeout bounds every request. Required.
	Timeout time.Duration
	// AllowPlainHTTP accepts an http address on loopback: `serve --dev` only.
	AllowPlainHTTP bool
	// MaxConns is the number of idle connections that are kept: the sum of the
	// caps on concurrent calls. Zero means 100.
	MaxConns int
	// Observer is told of every request; nil for nobody.
	Observer Observer
	// RequestIDs makes the observer hear OpenBao's request id of each answer, at
	// the cost of looking for it.
	RequestIDs bool
	// RoundTripper takes the network's place: for benchmarks that leave it out.
	// CAFile and ServerName are not looked at then. Nil for the network.
	RoundTripper http.RoundTripper
}

// Conn is a connection to one OpenBao. Its methods may be called from many
// goroutines at once.
type Conn struct {
	base       *url.URL
	namespace  string
	timeout    time.Duration
	transport  http.RoundTripper
	observer   Observer
	requestIDs bool
	breaker    *breaker
	// dropped is when the idle connections were dropped last; nil for never.
	dropped atomic.Pointer[time.Time]
	client  *api.Client
	// last holds the headers of the most recently used token, which is nearly
	// always the one that the next request uses.
	last atomic.Pointer[headers]
	// lookedAt is when idle connections were last dropped for an answer.
	lookedAt atomic.Pointer[time.Time]
}

// New checks the options and reads the CA file. It sends nothing. Its errors
// name the configuration field.
func New(o Options) (*Conn, error) {
	base, err := parseAddress(o.Address, o.AllowPlainHTTP)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("openbao.timeout: %v is not positive: give a duration such as 2s", o.Timeout)
	}
	c := &Conn{
		base:       base,
		namespace:  o.Namespace,
		timeout:    o.Timeout,
		transport:  o.RoundTripper,
		observer:   o.Observer,
		requestIDs: o.RequestIDs,
		breaker:    newBreaker(),
	}
	if c.transport == nil {
		t, err := newTransport(base, o)
		if err != nil {
			return nil, err
		}
		noteDials(t)
		c.transport = t
	}
	if c.client, err = newLibraryClient(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Timeout is the bound of a single request, openbao.timeout.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// Close drops the idle connections. Running requests go on to their end.
func (c *Conn) Close() { c.dropIdle() }

// Endpoint is one kind of request to one path, computed once. It is immutable.
type Endpoint struct {
	op     Operation
	method string
	url    *url.URL
}

// Endpoint returns the endpoint of an operation below /v1. A segment may hold
// slashes, as mount paths do. It fails for a segment that would not stay the
// path that it says, without repeating it.
func (c *Conn) Endpoint(op Operation, method string, segments ...string) (*Endpoint, error) {
	escaped := []string{"v1"}
	for _, s := range segments {
		for part := range strings.SplitSeq(s, "/") {
			if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, isControl) {
				return nil, fmt.Errorf("%s: the path has an empty, dotted or unprintable element: correct %s",
					op.Words(), op.mountField())
			}
			escaped = append(escaped, url.PathEscape(part))
		}
	}
	return &Endpoint{op: op, method: method, url: c.base.JoinPath(escaped...)}, nil
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// Call sends one request with body and returns the answer, which the caller
// releases. body may be nil and belongs to Call from here on, whatever the
// result. The request ends at the earlier of ctx's deadline and Timeout.
//
// Every failure is a *fault.Error that holds no URL and no word of OpenBao's.
// Where ctx ended, it wraps ctx's error; where Timeout passed, its cause is
// fault.TimedOut and it wraps nothing. Where OpenBao has not been reached for
// some time, it is fault.BreakerOpen at once, and nothing was sent.
func (c *Conn) Call(ctx context.Context, e *Endpoint, token Secret, body *Buffer) (*Buffer, error) {
	x := exchange{op: e.op, caller: ctx, limit: c.timeout, start: time.Now(), journey: &journey{Context: ctx}}
	limited, cancel := context.WithTimeout(x.journey, c.timeout)
	defer cancel()
	return c.guarded(x, c.request(limited, e, token, body))
}

func (c *Conn) request(ctx context.Context, e *Endpoint, token Secret, body *Buffer) *http.Request {
	r := &http.Request{
		Method: e.method,
		URL:    e.url,
		Host:   e.url.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	h := c.headersFor(token)
	if body == nil {
		r.Header = h.withoutBody
	} else {
		r.Header = h.withBody
		// There is no GetBody: net/http cannot send a body a second time.
		r.Body = &requestBody{buffer: body}
		r.ContentLength = int64(len(body.B))
	}
	return r.WithContext(ctx)
}

// headers are the request headers under one token. net/http only reads them, so
// all requests share them.
type headers struct {
	token                 Secret
	withBody, withoutBody http.Header
}

func (c *Conn) headersFor(token Secret) *headers {
	if h := c.last.Load(); h != nil && h.token == token {
		return h
	}
	plain := http.Header{
		"User-Agent":          {"bao-kms-provider"},
		api.RequestHeaderName: {"true"},
	}
	if !token.IsZero() {
		plain.Set(api.AuthHeaderName, token.Reveal())
	}
	if c.namespace != "" {
		plain.Set(api.NamespaceHeaderName, c.namespace)
	}
	withBody := plain.Clone()
	withBody.Set("Content-Type", "application/json")
	h := &headers{token: token, withBody: withBody, withoutBody: plain}
	c.last.Store(h)
	return h
}
