package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// Bounds of an HTTP endpoint. What asks here is a kubelet, a scraper or a
// person: none of them needs more.
const (
	maxConnections    = 64
	maxHeaderBytes    = 8 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 10 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Server is one read-only HTTP endpoint that is being served.
type Server struct {
	http *http.Server
	addr net.Addr
	done chan struct{}
	err  error // valid once done is closed
}

// Serve listens on a TCP address and serves handler until ctx ends or Shutdown
// is called. It returns once connections are accepted. field is the name of the
// configuration field that holds the address; errors name it.
func Serve(ctx context.Context, field, address string, handler http.Handler) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("%s: cannot listen on %s: %w; free the address or change the field", field, address, err)
	}
	return serveOn(ctx, l, handler), nil
}

// serveOn is Serve on a listener, which it closes at the end.
func serveOn(ctx context.Context, l net.Listener, handler http.Handler) *Server {
	s := &Server{
		http: &http.Server{
			Handler:           readOnly(handler),
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			// It would print the value of a panic.
			ErrorLog: log.New(io.Discard, "", 0),
		},
		addr: l.Addr(),
		done: make(chan struct{}),
	}
	// The goroutine ends when the listener does: at Shutdown, at Close, or when
	// the system takes it away. The second one ends with ctx or with the first.
	go func() {
		defer close(s.done)
		if err := s.http.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
	go func() {
		select {
		case <-ctx.Done():
			_ = s.http.Close()
		case <-s.done:
		}
	}()
	return s
}

// readOnly refuses everything but GET and HEAD before any handler sees it.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this endpoint is read-only", http.StatusMethodNotAllowed)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Addr is the address that is being listened on, with the real port.
func (s *Server) Addr() net.Addr { return s.addr }

// Done is closed when the endpoint has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the endpoint ended by itself; nil after Shutdown or the end of
// its context. It must be called after Done is closed.
func (s *Server) Err() error { return s.err }

// Shutdown stops accepting, lets running answers finish until ctx ends, and
// then closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	<-s.done
	return err
}
