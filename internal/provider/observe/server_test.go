package observe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/status"
)

func serveTest(t *testing.T, h http.Handler) *Server {
	t.Helper()
	s, err := Serve(t.Context(), "server.healthAddress", "127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

func do(t *testing.T, s *Server, method, path string, body io.Reader, header ...string) (code int, text string, h http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+s.Addr().String()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func TestEndpointsAreReadOnlyAndExact(t *testing.T) {
	health := serveTest(t, HealthHandler(&status.Board{}))
	metrics := serveTest(t, MetricsHandler(NewMetrics(testBuild, &status.Board{})))
	cases := []struct {
		s            *Server
		method, path string
		code         int
	}{
		{health, "GET", "/live", 200},
		{health, "HEAD", "/live", 200},
		{health, "GET", "/ready", 503},
		{health, "HEAD", "/ready", 503},
		{health, "POST", "/live", 405},
		{health, "DELETE", "/ready", 405},
		{health, "OPTIONS", "/ready", 405},
		{health, "GET", "/", 404},
		{health, "GET", "/ready/", 404},
		{health, "GET", "/metrics", 404},
		{health, "PUT", "/nothing", 405},
		{metrics, "GET", "/metrics", 200},
		{metrics, "HEAD", "/metrics", 200},
		{metrics, "POST", "/metrics", 405},
		{metrics, "GET", "/debug/pprof/", 404},
		{metrics, "GET", "/", 404},
	}
	for _, c := range cases {
		code, text, header := do(t, c.s, c.method, c.path, nil)
		if code != c.code {
			t.Errorf("%s %s = %d %s, want %d", c.method, c.path, code, text, c.code)
		}
		if code == 405 && header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s allows %q, want GET, HEAD", c.method, c.path, header.Get("Allow"))
		}
		if c.method == "HEAD" && text != "" {
			t.Errorf("HEAD %s has a body: %s", c.path, text)
		}
	}
}

func TestEndpointsBoundHeaders(t *testing.T) {
	s := serveTest(t, HealthHandler(&status.Board{}))
	// net/http allows 4 KiB on top of the limit. It answers 431 and hangs up on
	// what it did not read, so that the answer may be lost; it is never served.
	large, err := http.NewRequest(http.MethodGet, "http://"+s.Addr().String()+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	large.Header.Set("X-Large", strings.Repeat("x", maxHeaderBytes+8<<10))
	if res, err := http.DefaultClient.Do(large); err == nil {
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a huge header is answered with %d, want 431", res.StatusCode)
		}
	}
	if code, _, _ := do(t, s, "GET", "/live", nil, "X-Small", strings.Repeat("x", maxHeaderBytes/2)); code != 200 {
		t.Errorf("a header within the limit is answered with %d, want 200", code)
	}
}

func TestEndpointsBoundConnections(t *testing.T) {
	s := serveTest(t, HealthHandler(&status.Board{}))
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ask := func(c net.Conn, patience time.Duration) (string, error) {
		t.Helper()
		if _, err := fmt.Fprintf(c, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		return bufio.NewReader(c).ReadString('\n')
	}
	var held []net.Conn
	for range maxConnections {
		c := dial()
		if line, err := ask(c, 10*time.Second); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("connection %d: %q, %v", len(held)+1, line, err)
		}
		held = append(held, c)
	}
	extra := dial()
	if line, err := ask(extra, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one connection above the limit is served: %q, %v", line, err)
	}
	held[0].Close()
	_ = extra.SetReadDeadline(time.Now().Add(10 * time.Second))
	if line, err := bufio.NewReader(extra).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("after another one ended: %q, %v; want an answer", line, err)
	}
}

func TestServeNamesTheField(t *testing.T) {
	s := serveTest(t, http.NotFoundHandler())
	for _, address := range []string{s.Addr().String(), "127.0.0.1:99999", "nonsense"} {
		_, err := Serve(t.Context(), "server.metricsAddress", address, http.NotFoundHandler())
		if err == nil || !strings.HasPrefix(err.Error(), "server.metricsAddress: cannot listen on "+address+": ") {
			t.Errorf("Serve on %s = %v, want an error that names field and address", address, err)
		}
	}
}

func TestServerEnds(t *testing.T) {
	t.Run("with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s, err := Serve(ctx, "f", "127.0.0.1:0", http.NotFoundHandler())
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-s.Done()
		wantEnded(t, s)
	})
	t.Run("with Shutdown, after running answers", func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		s := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-release
			_, _ = io.WriteString(w, "whole")
		}))
		answer := make(chan string, 1)
		go func() {
			res, err := http.Get("http://" + s.Addr().String())
			if err != nil {
				answer <- err.Error()
				return
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			answer <- string(b)
		}()
		<-entered
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(context.Background()) }()
		<-s.Done() // no longer accepting
		close(release)
		if got := <-answer; got != "whole" {
			t.Errorf("the running request got %q, want its whole answer", got)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		wantEnded(t, s)
	})
	t.Run("with Shutdown, whose patience ends", func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		defer close(release)
		s := serveTest(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(entered)
			<-release
		}))
		go func() {
			if res, err := http.Get("http://" + s.Addr().String()); err == nil {
				res.Body.Close()
			}
		}()
		<-entered
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown = %v, want the end of its context", err)
		}
		wantEnded(t, s)
	})
	t.Run("by itself", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := serveOn(t.Context(), l, http.NotFoundHandler())
		l.Close()
		<-s.Done()
		if !errors.Is(s.Err(), net.ErrClosed) {
			t.Errorf("Err = %v, want that the listener is closed", s.Err())
		}
	})
}

func wantEnded(t *testing.T, s *Server) {
	t.Helper()
	if s.Err() != nil {
		t.Errorf("Err = %v, want nil", s.Err())
	}
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		c.Close()
		t.Error("the ended server still accepts")
	}
}

// A panic in a handler ends one answer and prints nothing.
func TestServerSurvivesAPanic(t *testing.T) {
	s := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("canary")
		}
	}))
	if _, err := http.Get("http://" + s.Addr().String() + "/panic"); err == nil {
		t.Error("a panicking handler answers")
	}
	if code, _, _ := do(t, s, "GET", "/", nil); code != 200 {
		t.Errorf("the next request is answered with %d, want 200", code)
	}
}
