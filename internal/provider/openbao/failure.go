package openbao

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// dialError and handshakeError mark the phase in which a connection failed.
// Their texts are never shown.
type dialError struct{ err error }

func (e *dialError) Error() string { return "dial: " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// transportFailure classifies a request that got no complete answer. Only the
// caller's own context error is kept in the result: net's timeouts claim to be
// context.DeadlineExceeded and would be taken for the caller's.
func (x exchange) transportFailure(err error) *fault.Error {
	if ended := contextError(x.caller); ended != nil {
		return x.callerGone(ended)
	}
	cause, detail := x.classifyTransport(err)
	return fault.New(cause, x.op.Words(), "%s", detail)
}

func (x exchange) callerGone(ended error) *fault.Error {
	return fault.Wrap(fault.CauseOf(ended), x.op.Words(), ended)
}

// contextError is ctx.Err(), and also knows a deadline that has passed a moment
// before its timer fires.
func contextError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return nil
}

func (x exchange) classifyTransport(err error) (fault.Cause, string) {
	var (
		dns       *net.DNSError
		handshake *handshakeError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		return fault.DNSFailed, "correct the host in openbao.address, or repair the resolver"
	case isTimeout(err):
		return fault.TimedOut, x.timeoutDetail()
	case errors.Is(err, errNotLoopback):
		return fault.ConnectionFailed, "plain HTTP is only for loopback and the name in openbao.address is another host's"
	case errors.As(err, &handshake) && !isBroken(handshake.err):
		return fault.TLSFailed, handshakeDetail(handshake.err)
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return fault.TLSFailed, "one side ended the TLS connection with an alert: see OpenBao's log"
	}
	return fault.ConnectionFailed, connectionDetail(err)
}

func (x exchange) timeoutDetail() string {
	if x.limit == 0 {
		return "check the network path and OpenBao's load"
	}
	return "no complete answer within openbao.timeout (" + x.limit.String() + "): check the network path and OpenBao's load"
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// isBroken reports whether the peer or the network ended the connection.
func isBroken(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &errno)
}

func handshakeDetail(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &authority):
		return "no certificate in openbao.caCertFile has signed the server's: put its CA into that file"
	case errors.As(err, &name):
		return "the server's certificate does not carry the name in openbao.tlsServerName: correct the name or the certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired or is not valid yet: renew it, or correct this host's clock"
	case errors.As(err, &invalid):
		return "the server's certificate may not be used for this: issue a server certificate"
	case errors.As(err, &record):
		return "the port does not speak TLS: correct openbao.address"
	}
	return "the handshake failed: the server must offer TLS 1.2 or newer"
}

func connectionDetail(err error) string {
	var dial *dialError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start OpenBao, or correct openbao.address"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it: check the network and openbao.address"
	case errors.As(err, &dial):
		return "no connection could be made: check the network and openbao.address"
	}
	return "the connection broke before the answer was complete: see OpenBao's log and the network path, and check what answers at openbao.address"
}
