package openbao

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/baokms/baokms/internal/provider/securefile"
)

const (
	maxCAFile       = 1 << 20
	defaultMaxConns = 100
	// idleTimeout is well below the five minutes after which OpenBao closes an
	// idle connection, so that we do not meet one that it is just closing.
	idleTimeout = 90 * time.Second
)

func parseAddress(address string, allowPlain bool) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return nil, errors.New("openbao.address: not a URL: write it like https://openbao.example.net:8200")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return nil, errors.New("openbao.address: only scheme, host and port are allowed: remove the rest")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return nil, errors.New("openbao.address: the scheme must be https")
	case !allowPlain:
		return nil, errors.New("openbao.address: plain HTTP is refused: use https")
	case !isLoopback(u.Hostname()):
		return nil, errors.New("openbao.address: plain HTTP is only for loopback: use https")
	}
	// JoinPath needs the slash: without it the path would stay relative.
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// newTransport returns a transport that speaks HTTP/1.1 only. Measured with
// BenchmarkProtocol on two cores, in processor time of both ends per call:
// HTTP/2 takes about twice as much for one caller at a time, which is how an API
// server mostly calls, and about a quarter less for 32 at once, with the same
// wall time on an idle machine. What decides is that with a connection per call
// a stalled or half-dead connection harms one call and is gone with it, where
// one shared HTTP/2 connection would fail every call until a ping finds out.
func newTransport(base *url.URL, o Options) (*http.Transport, error) {
	if o.MaxConns < 0 {
		return nil, fmt.Errorf("openbao: %d connections: the number must not be negative", o.MaxConns)
	}
	if o.MaxConns == 0 {
		o.MaxConns = defaultMaxConns
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		Proxy:                  nil,
		Protocols:              protocols,
		MaxIdleConnsPerHost:    o.MaxConns,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: limitError,
	}
	if base.Scheme == "http" {
		t.DialContext = dialPlain(o.Timeout)
		return t, nil
	}
	if o.ServerName == "" {
		return nil, errors.New("openbao.tlsServerName: missing: give the name in the server's certificate")
	}
	roots, err := readRoots(o.CAFile)
	if err != nil {
		return nil, err
	}
	// net/http does not look at it, because the dial makes the handshake;
	// UseCertificate takes it from here.
	t.TLSClientConfig = &tls.Config{
		RootCAs:    roots,
		ServerName: o.ServerName,
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
	}
	t.DialTLSContext = dialTLS(o.Timeout, t.TLSClientConfig)
	return t, nil
}

// dialTLS dials and makes the handshake itself, so that a failure says which
// of the two it was. net/http lets a dial go on when its request has ended;
// the timeout bounds it all the same.
func dialTLS(timeout time.Duration, config *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		raw, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, &dialError{err}
		}
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, &handshakeError{err}
		}
		return &alertConn{Conn: conn}, nil
	}
}

// alertConn lets the server's TLS alert win over the failed write that follows
// it: net/http closes a connection whose reader met an alert, and would report
// whichever of the two it saw first.
type alertConn struct {
	*tls.Conn
	alert atomic.Pointer[net.OpError]
}

func (c *alertConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "remote error" {
			c.alert.Store(op)
		}
	}
	return n, err
}

func (c *alertConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		if alert := c.alert.Load(); alert != nil {
			return n, alert
		}
	}
	return n, err
}

var errNotLoopback = errors.New("the address is not loopback")

// dialPlain refuses every address that is not loopback, whatever its name said.
func dialPlain(timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	dialer := &net.Dialer{
		Timeout: timeout,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			if ap, err := netip.ParseAddrPort(address); err != nil || !ap.Addr().IsLoopback() {
				return errNotLoopback
			}
			return nil
		},
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, &dialError{err}
		}
		return conn, nil
	}
}

// readRoots reads a PEM file that holds certificates and nothing else.
func readRoots(path string) (*x509.CertPool, error) {
	rest, err := securefile.Read(path, securefile.Rule{
		What:    "CA certificate file",
		Forbid:  securefile.PublicReadOnly,
		MaxSize: maxCAFile,
	})
	if err != nil {
		return nil, fmt.Errorf("openbao.caCertFile: %w", err)
	}
	pool := x509.NewCertPool()
	for n := 1; ; n++ {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && strings.Contains(string(rest), "-----BEGIN"):
			return nil, fmt.Errorf("openbao.caCertFile: PEM block %d is damaged: copy the file again", n)
		case block == nil && n == 1:
			return nil, errors.New("openbao.caCertFile: no certificate in it: give the CA's certificate in PEM form")
		case block == nil:
			return pool, nil
		case block.Type != "CERTIFICATE":
			return nil, fmt.Errorf("openbao.caCertFile: PEM block %d is no certificate: leave only certificates in the file", n)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("openbao.caCertFile: the certificate in PEM block %d cannot be parsed: replace it", n)
		}
		pool.AddCert(cert)
	}
}
