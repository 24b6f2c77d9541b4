package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// healthEvery is how often a backend is asked for its health, and healthTimeout how long it may take.
	healthEvery   = 250 * time.Millisecond
	healthTimeout = time.Second
	// dialTimeout bounds a balancer's connection to a backend.
	dialTimeout = time.Second
)

// Backend is one server behind a Balancer.
type Backend struct {
	// Address is its host:port.
	Address string
	// Healthy says whether it should get connections; nil is always.
	Healthy func(ctx context.Context) bool
}

// Balancer is a TCP load balancer on loopback, as operators have one in front of OpenBao. It gives each connection to the next healthy
// backend in turn, leaves TLS to the two ends, and keeps connections to a backend that has turned unhealthy, as such balancers do unless
// they are told otherwise. Its methods are safe for concurrent use.
type Balancer struct {
	listener net.Listener
	backends []Backend
	ctx      context.Context
	end      context.CancelFunc
	// running are the accepting goroutine, the health checks and two goroutines a connection; Stop ends them all.
	running sync.WaitGroup

	// mu guards what follows.
	mu       sync.Mutex
	healthy  []bool
	next     int
	accepted int
	open     map[*net.TCPConn]bool
}

// StartBalancer starts one. It first asks every backend once, so that it never starts without knowing.
func StartBalancer(backends ...Backend) (*Balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a load balancer: %w", err)
	}
	b := &Balancer{listener: l, backends: backends, healthy: make([]bool, len(backends)), open: map[*net.TCPConn]bool{}}
	b.ctx, b.end = context.WithCancel(context.Background())
	for i := range backends {
		b.check(i)
		if backends[i].Healthy != nil {
			b.running.Go(func() { b.watch(i) })
		}
	}
	b.running.Go(b.accept)
	return b, nil
}

// Address is the URL of what is behind it.
func (b *Balancer) Address() string { return "https://" + b.listener.Addr().String() }

// Accepted is how many connections it has accepted, those included for which it found no backend.
func (b *Balancer) Accepted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accepted
}

// Open is how many connections clients have open to a backend now.
func (b *Balancer) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// Cut resets every open connection, as a restart of the balancer does.
func (b *Balancer) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.open {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

// Stop closes the port and all connections, and waits until nothing of it runs.
func (b *Balancer) Stop() error {
	b.end()
	_ = b.listener.Close()
	b.Cut()
	b.running.Wait()
	return nil
}

func (b *Balancer) watch(i int) {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
			b.check(i)
		}
	}
}

func (b *Balancer) check(i int) {
	healthy := true
	if ask := b.backends[i].Healthy; ask != nil {
		ctx, cancel := context.WithTimeout(b.ctx, healthTimeout)
		defer cancel()
		healthy = ask(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.healthy[i] = healthy
}

func (b *Balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.accepted++
		b.mu.Unlock()
		b.running.Go(func() { b.serve(conn.(*net.TCPConn)) })
	}
}

// serve joins a client to a backend until one of them ends. A client for which there is none is closed at once.
func (b *Balancer) serve(client *net.TCPConn) {
	defer func() { _ = client.Close() }()
	backend := b.dial()
	if backend == nil {
		return
	}
	defer func() { _ = backend.Close() }()
	b.mu.Lock()
	b.open[client] = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.open, client)
		b.mu.Unlock()
	}()
	if b.ctx.Err() != nil {
		return
	}
	// Either direction's end ends the other: neither TLS nor HTTP/1.1 needs a half-open connection.
	b.running.Go(func() {
		_, _ = io.Copy(backend, client)
		_ = backend.Close()
	})
	_, _ = io.Copy(client, backend)
}

// dial connects to the next healthy backend that takes the connection, nil when none does.
func (b *Balancer) dial() *net.TCPConn {
	for range b.backends {
		address, ok := b.pick()
		if !ok {
			return nil
		}
		dialer := net.Dialer{Timeout: dialTimeout}
		if conn, err := dialer.DialContext(b.ctx, "tcp", address); err == nil {
			return conn.(*net.TCPConn)
		}
	}
	return nil
}

func (b *Balancer) pick() (address string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		i := b.next % len(b.backends)
		b.next++
		if b.healthy[i] {
			return b.backends[i].Address, true
		}
	}
	return "", false
}
