// Package fault names everything that can go wrong between the API server and
// OpenBao, once, and says what each cause looks like from outside.
//
// A Cause is what failed, as precisely as an operator can act on it. One table
// (policy.go) gives every cause its error class, its gRPC code and its public
// text; packages that talk to OpenBao or to files produce causes, the KMS
// service and the observers read the table.
//
// Nothing secret may ever enter an Error: no plaintext, token, JWT, key
// material, ciphertext, OpenBao path or key name (design: overview, invariant
// 10). Details are fixed words chosen by the package that creates the error,
// never text that came from OpenBao or from a request.
//
// Any package of the provider may import fault; fault imports none of them.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// Error is a failure with a cause.
type Error struct {
	// Cause is what failed. The zero Cause is Unknown.
	Cause Cause
	// Op is what was being done, in an operator's words: "read key metadata".
	Op string
	// Detail says more and what to do next. It must hold nothing secret and
	// nothing that came from outside the process. It may be empty.
	Detail string
	// HTTPStatus is OpenBao's answer, 0 when there was none.
	HTTPStatus int
	// Err is the underlying error, kept for errors.Is and errors.As. It is
	// never printed: library errors hold URLs, and URLs hold paths.
	Err error
}

// New returns an Error with a cause, what was being done, and a detail built
// from format and args as fmt.Sprintf builds it.
func New(c Cause, op, format string, args ...any) *Error {
	detail := format
	if len(args) > 0 {
		detail = fmt.Sprintf(format, args...)
	}
	return &Error{Cause: c, Op: op, Detail: detail}
}

// Wrap is New without a detail and with an underlying error.
func Wrap(c Cause, op string, err error) *Error {
	return &Error{Cause: c, Op: op, Err: err}
}

// Error is "op: text of the class: detail (HTTP status)". The underlying error
// does not appear in it.
func (e *Error) Error() string {
	s := e.Cause.Text()
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.HTTPStatus != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.HTTPStatus)
	}
	return s
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// CauseOf returns the cause of err: that of the outermost *Error in its chain,
// else Canceled or DeadlineExceeded for the context's errors, else Unknown. It
// returns None for nil.
//
// The context's errors win over an *Error that merely wraps them (design:
// kms-service, error policy), so a call that was cut short by its caller is
// never counted against OpenBao. The producer of an *Error decides: it leaves
// Err empty when the deadline that passed was its own and not its caller's.
func CauseOf(err error) Cause {
	switch {
	case err == nil:
		return None
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Cause
	}
	return Unknown
}

// ClassOf is CauseOf(err).Class().
func ClassOf(err error) Class { return CauseOf(err).Class() }
