package stack_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// named is a TCP server that says its name to whoever connects and echoes what it is told.
func named(t *testing.T, name string) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, name)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	stop = func() { _ = l.Close() }
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// visit connects and returns the name that the server says, empty when the connection ends before.
func visit(t *testing.T, b *stack.Balancer) (net.Conn, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.Address(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	name := make([]byte, 1)
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, name); err != nil {
		return conn, ""
	}
	return conn, string(name)
}

// eventually polls a condition for ten seconds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-ticker.C:
		}
	}
}

func TestBalancer(t *testing.T) {
	a, stopA := named(t, "a")
	second, _ := named(t, "b")
	var bHealthy atomic.Bool
	started, err := stack.StartBalancer(
		stack.Backend{Address: a},
		stack.Backend{Address: second, Healthy: func(context.Context) bool { return bHealthy.Load() }},
	)
	b := stacktest.Balancer(t, started, err)

	for range 3 {
		if _, name := visit(t, b); name != "a" {
			t.Errorf("got to %q while only a is healthy", name)
		}
	}
	bHealthy.Store(true)
	var conn net.Conn
	eventually(t, "b gets a connection", func() bool {
		var name string
		conn, name = visit(t, b)
		return name == "b"
	})
	stopA()
	for range 3 {
		if _, name := visit(t, b); name != "b" {
			t.Errorf("got to %q while nothing listens at a", name)
		}
	}

	// A connection outlives its backend's health, and goes both ways.
	bHealthy.Store(false)
	eventually(t, "no backend is left", func() bool {
		_, name := visit(t, b)
		return name == ""
	})
	said := make([]byte, 4)
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != "ping" {
		t.Errorf("a connection to a backend that is unhealthy now: %q, %v", said, err)
	}
	if b.Open() == 0 || b.Accepted() < 8 {
		t.Errorf("%d open of %d accepted", b.Open(), b.Accepted())
	}
	b.Cut()
	if _, err := conn.Read(said); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after Cut: %v, want a reset", err)
	}
	eventually(t, "nothing is open after Cut", func() bool { return b.Open() == 0 })
}
