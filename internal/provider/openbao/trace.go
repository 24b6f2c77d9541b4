package openbao

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/openbao/openbao/api/v2"
)

const (
	// maxRequestID is far above what OpenBao writes: a UUID of 36 bytes.
	maxRequestID = 64
	// requestIDWithin is how far an answer is searched: OpenBao writes the field
	// first.
	requestIDWithin = 4 << 10
)

// Trace learns OpenBao's request id of the requests that are made under its
// context: for debug correlation (design: observability, logs).
type Trace struct{ id atomic.Pointer[string] }

type traceKey struct{}

// WithTrace returns a context under which requests are traced.
func WithTrace(ctx context.Context) (context.Context, *Trace) {
	t := new(Trace)
	return context.WithValue(ctx, traceKey{}, t), t
}

// RequestID is OpenBao's id of the last answer that carried one, which answers
// to a failed request do not. It is empty as long as there was none. It came
// from OpenBao and is not proven in any way, but has 64 bytes at most and
// consists of letters, digits and dashes.
func (t *Trace) RequestID() string {
	if id := t.id.Load(); id != nil {
		return *id
	}
	return ""
}

// wantsIDs reports whether anybody asks for the request id of an answer.
func (c *Conn) wantsIDs(ctx context.Context) bool {
	return c.requestIDs && c.observer != nil || traceOf(ctx) != nil
}

func traceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// answerID is the request id in an answer if anybody asks for it.
func (c *Conn) answerID(x exchange, answer *Buffer) string {
	if answer == nil || !c.wantsIDs(x.caller) {
		return ""
	}
	return requestID(answer.B)
}

// secretID is answerID for an answer that the library has decoded.
func (c *Conn) secretID(x exchange, answer *api.Secret) string {
	if answer == nil || !c.wantsIDs(x.caller) || !validRequestID([]byte(answer.RequestID)) {
		return ""
	}
	return answer.RequestID
}

// requestID finds the field request_id of a JSON object. It copies nothing but
// the id, because the answer may hold plaintext, and takes no other field of
// that name: what a nested one says is not OpenBao's to say.
func requestID(answer []byte) string {
	rest := bytes.TrimLeft(answer[:min(len(answer), requestIDWithin)], " \t\r\n")
	if len(rest) == 0 || rest[0] != '{' {
		return ""
	}
	depth := 0
	for len(rest) > 0 {
		switch rest[0] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return ""
			}
		case '"':
			text, after, ok := jsonString(rest)
			if !ok {
				return ""
			}
			rest = after
			if value, isKey := afterColon(rest); isKey && depth == 1 && string(text) == "request_id" {
				id, _, ok := jsonString(value)
				if !ok || !validRequestID(id) {
					return ""
				}
				return string(id)
			}
			continue
		}
		rest = rest[1:]
	}
	return ""
}

// jsonString splits a JSON string off, without its quotes and with its escapes
// as they are.
func jsonString(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[1:i], b[i+1:], true
		}
	}
	return nil, b, false
}

// afterColon returns what follows a key.
func afterColon(b []byte) (value []byte, ok bool) {
	const space = " \t\r\n"
	value, ok = bytes.CutPrefix(bytes.TrimLeft(b, space), []byte(":"))
	return bytes.TrimLeft(value, space), ok
}

func validRequestID(id []byte) bool {
	if len(id) == 0 || len(id) > maxRequestID {
		return false
	}
	for _, c := range id {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return false
		}
	}
	return true
}
