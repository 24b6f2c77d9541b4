package kmsclient

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// UnreachableError says that no connection to the socket could be made. Err is
// the system's error, so that errors.Is tells why: fs.ErrNotExist when there is
// no socket, syscall.ECONNREFUSED when nobody serves the one that is there,
// fs.ErrPermission when this user may not use it.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string {
	return "KMS socket: no connection: " + e.Err.Error()
}

// Unwrap returns the system's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// socket dials one path.
type socket struct {
	path string
	// failed is why the last dial failed; nil after one that did not.
	failed atomic.Pointer[error]
}

func (s *socket) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.path)
	if err != nil {
		err = withoutAddress(err)
		s.failed.Store(&err)
		return nil, err
	}
	s.failed.Store(nil)
	return namelessConn{conn}, nil
}

// namelessConn keeps the socket's path out of errors, which the library repeats.
type namelessConn struct{ net.Conn }

func (c namelessConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, withoutAddress(err)
}

func (c namelessConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, withoutAddress(err)
}

// withoutAddress is what happened, without where.
func withoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}
