package openbao

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// gate is a TCP forwarder in front of a good server: the network, with its
// failures.
type gate struct {
	addr string
	to   string
	mu   sync.Mutex
	// listener is nil while nobody listens.
	listener net.Listener
	links    map[*link]bool
	group    sync.WaitGroup
}

// link is one forwarded connection.
type link struct {
	client, server *net.TCPConn
	// lost swallows what the client sends; reset breaks the connection then.
	lost, reset atomic.Bool
	// used is set when something was sent all the same.
	used atomic.Bool
}

// use notes that n bytes were sent. They are a TLS alert when the connection is
// only closed; a request takes more.
func (l *link) use(n int) {
	if n > 64 {
		l.used.Store(true)
	}
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	g := &gate{to: to, addr: "127.0.0.1:0", links: map[*link]bool{}}
	g.open(t)
	t.Cleanup(func() { g.close(); g.group.Wait() })
	return g
}

// open lets connections through, at the address of the first time.
func (g *gate) open(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	g.listener, g.addr = l, l.Addr().String()
	g.mu.Unlock()
	g.group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			g.forward(conn.(*net.TCPConn))
		}
	})
}

func (g *gate) forward(client *net.TCPConn) {
	server, err := net.Dial("tcp", g.to)
	if err != nil {
		client.Close()
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn)}
	g.mu.Lock()
	g.links[l] = true
	g.mu.Unlock()
	end := func() {
		client.Close()
		server.Close()
		g.mu.Lock()
		delete(g.links, l)
		g.mu.Unlock()
	}
	g.group.Go(func() { _, _ = io.Copy(client, server); end() })
	g.group.Go(func() {
		defer end()
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			switch {
			case err != nil:
				return
			case l.reset.Load():
				l.use(n)
				_ = client.SetLinger(0)
				return
			case l.lost.Load():
				l.use(n)
			default:
				if _, err := server.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
	})
}

// all does something to every connection.
func (g *gate) all(do func(*link)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.links {
		do(l)
	}
}

// close refuses connections and resets those that there are, as the kernel of a
// killed server does.
func (g *gate) close() {
	g.mu.Lock()
	if g.listener != nil {
		g.listener.Close()
		g.listener = nil
	}
	g.mu.Unlock()
	g.all(func(l *link) {
		_ = l.client.SetLinger(0)
		l.client.Close()
		l.server.Close()
	})
}

// behindGate returns options to reach a server with the handler through a gate.
func behindGate(t *testing.T, handler http.HandlerFunc) (Options, *gate) {
	t.Helper()
	o := serve(t, handler)
	g := newGate(t, strings.TrimPrefix(o.Address, "https://"))
	o.Address = "https://" + g.addr
	return o, g
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _ = w.Write(body)
	}
}

// gather is echo, but holds the first n requests until all of them are there: so
// that they need n connections.
func gather(n int) http.HandlerFunc {
	var arrived atomic.Int32
	all := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == int32(n) {
			close(all)
		}
		<-all
		echo(w, r)
	}
}

// warm fills the pool with n idle connections to gather(n).
func warm(t *testing.T, c *Conn, n int) {
	t.Helper()
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if _, err := call(t, c); err != nil {
				t.Errorf("while warming up: %v", err)
			}
		})
	}
	group.Wait()
}

// forget makes the gate, or what stands behind it, forget all connections. The
// result counts those that are used afterwards.
func (g *gate) forget(how func(*link)) (used func() int) {
	var links []*link
	g.all(func(l *link) {
		how(l)
		links = append(links, l)
	})
	return func() (n int) {
		for _, l := range links {
			if l.used.Load() {
				n++
			}
		}
		return n
	}
}

func swallow(l *link)    { l.lost.Store(true) }
func resetAtUse(l *link) { l.reset.Store(true) }
