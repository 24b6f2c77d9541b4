package openbao

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// httpScript answers one plain HTTP request.
func httpScript(status, body string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 64<<10))
		fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
	}
}

func write(text string) func(io.Writer) {
	return func(w io.Writer) { _, _ = io.WriteString(w, text) }
}

// tlsVersion is a server that speaks no newer TLS.
func tlsVersion(ca *authority, version uint16) func(*testing.T) Options {
	return func(t *testing.T) Options {
		return serveTLS(t, ca, &tls.Config{
			Certificates: []tls.Certificate{ca.issue(t, nil)},
			MinVersion:   tls.VersionTLS10,
			MaxVersion:   version,
		}, nil)
	}
}

func TestTransportFailures(t *testing.T) {
	ca := newAuthority(t)
	tlsWith := func(t *testing.T, edit func(*x509.Certificate)) Options {
		return serveTLS(t, ca, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, edit)}}, nil)
	}
	tcp := func(t *testing.T, script func(net.Conn)) Options {
		return Options{Address: "https://" + listen(t, script).String(), CAFile: ca.file(t), ServerName: "bao.test", Timeout: 10 * time.Second}
	}
	for name, c := range map[string]struct {
		options func(*testing.T) Options
		cause   fault.Cause
		text    string
	}{
		"refused": {func(t *testing.T) Options {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			return Options{Address: "https://" + l.Addr().String(), CAFile: ca.file(t), ServerName: "bao.test", Timeout: time.Second}
		}, fault.ConnectionFailed, "nothing listens there"},
		"no such host": {func(t *testing.T) Options {
			return Options{Address: "https://bao.invalid:1", CAFile: ca.file(t), ServerName: "bao.test", Timeout: 10 * time.Second}
		}, fault.DNSFailed, "openbao.address"},
		"closed before the handshake": {func(t *testing.T) Options {
			return tcp(t, func(net.Conn) {})
		}, fault.ConnectionFailed, "the connection broke"},
		"reset in the handshake": {func(t *testing.T) Options {
			return tcp(t, func(conn net.Conn) {
				_, _ = conn.Read(make([]byte, 16))
				_ = conn.(*net.TCPConn).SetLinger(0)
			})
		}, fault.ConnectionFailed, "the connection broke"},
		"reset before the headers": {func(t *testing.T) Options {
			return scripted(t, write(""))
		}, fault.ConnectionFailed, "the connection broke"},
		"reset in the headers": {func(t *testing.T) Options {
			return scripted(t, write("HTTP/1.1 200 OK\r\nContent-"))
		}, fault.ConnectionFailed, "the connection broke"},
		"reset in the body": {func(t *testing.T) Options {
			return scripted(t, write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":"))
		}, fault.ConnectionFailed, "the connection broke"},
		"reset in a chunk": {func(t *testing.T) Options {
			return scripted(t, write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"data\":"))
		}, fault.ConnectionFailed, "the connection broke"},
		"reset in an error's body": {func(t *testing.T) Options {
			return scripted(t, write("HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n{\"err"))
		}, fault.ConnectionFailed, "the connection broke"},
		"not HTTP": {func(t *testing.T) Options {
			return scripted(t, write(canaryText+"\r\n\r\n"))
		}, fault.ConnectionFailed, "the connection broke"},
		"plain HTTP on the port": {func(t *testing.T) Options {
			return tcp(t, httpScript("400 Bad Request", "no TLS here"))
		}, fault.TLSFailed, "does not speak TLS"},
		"another CA": {func(t *testing.T) Options {
			o := tlsWith(t, nil)
			o.CAFile = newAuthority(t).file(t)
			return o
		}, fault.TLSFailed, "openbao.caCertFile"},
		"another name": {func(t *testing.T) Options {
			return tlsWith(t, func(c *x509.Certificate) { c.DNSNames = []string{"other.test"} })
		}, fault.TLSFailed, "openbao.tlsServerName"},
		"expired": {func(t *testing.T) Options {
			return tlsWith(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		}, fault.TLSFailed, "expired"},
		"not yet valid": {func(t *testing.T) Options {
			return tlsWith(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
		}, fault.TLSFailed, "not valid yet"},
		"a client's certificate": {func(t *testing.T) Options {
			return tlsWith(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
		}, fault.TLSFailed, "server certificate"},
		"TLS 1.0": {tlsVersion(ca, tls.VersionTLS10), fault.TLSFailed, "TLS 1.2"},
		"TLS 1.1": {tlsVersion(ca, tls.VersionTLS11), fault.TLSFailed, "TLS 1.2"},
		"a client certificate is asked for": {func(t *testing.T) Options {
			return serveTLS(t, ca, &tls.Config{
				Certificates: []tls.Certificate{ca.issue(t, nil)},
				ClientAuth:   tls.RequireAnyClientCert,
			}, nil)
		}, fault.TLSFailed, "alert"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.options(t)
			watch := &observed{}
			o.Observer = watch
			conn := open(t, o)
			_, err := timed(t, t.Context(), conn, Encrypt, post(), o.Timeout/2)
			assertFault(t, err, c.cause, c.text)
			if n := conn.breaker.machine.Counts().TotalFailures; n != 1 {
				t.Errorf("the breaker counts %d failures, want 1", n)
			}
			if want := "transit_encrypt " + string(c.cause.Class()); strings.Join(watch.list, ",") != want {
				t.Errorf("observed %q, want %q", watch.list, want)
			}
		})
	}
}

func TestTLS12IsEnough(t *testing.T) {
	ca := newAuthority(t)
	o := serveTLS(t, ca, &tls.Config{
		Certificates: []tls.Certificate{ca.issue(t, nil)},
		MaxVersion:   tls.VersionTLS12,
	}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	if got, err := call(t, open(t, o)); err != nil || got != "ok" {
		t.Errorf("%q, %v", got, err)
	}
}

// stalls are peers that stop at each phase of a call, each until the
// connection is closed from the other side.
func stalls(t *testing.T) map[string]Options {
	hold := func(w io.Writer) {
		if conn, ok := w.(net.Conn); ok {
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	slow := func(text string) Options {
		return scripted(t, func(w io.Writer) { _, _ = io.WriteString(w, text); hold(w) })
	}
	ca := newAuthority(t)
	handshake := listen(t, func(conn net.Conn) { hold(conn) })
	return map[string]Options{
		"handshake": {Address: "https://" + handshake.String(), CAFile: ca.file(t), ServerName: "bao.test"},
		"headers":   slow(""),
		"half way":  slow("HTTP/1.1 200 OK\r\nContent-"),
		"body":      slow("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
		"error":     slow("HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\n{"),
	}
}

func TestDeadlines(t *testing.T) {
	for name, o := range stalls(t) {
		t.Run(name+"/own timeout", func(t *testing.T) {
			o.Timeout = 50 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			c := open(t, o)
			_, err := timed(t, ctx, c, Encrypt, post(), 50*time.Millisecond)
			assertFault(t, err, fault.TimedOut, "openbao.timeout (50ms)")
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("our own timeout looks like the caller's deadline")
			}
		})
		t.Run(name+"/caller's deadline", func(t *testing.T) {
			o.Timeout = time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			c := open(t, o)
			_, err := timed(t, ctx, c, Encrypt, post(), 50*time.Millisecond)
			assertFault(t, err, fault.DeadlineExceeded, "caller's deadline")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v does not wrap the context's error", err)
			}
		})
		t.Run(name+"/caller cancels", func(t *testing.T) {
			o.Timeout = time.Hour
			ctx, cancel := context.WithCancel(t.Context())
			c := open(t, o)
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err := timed(t, ctx, c, Encrypt, post(), 50*time.Millisecond)
			assertFault(t, err, fault.Canceled, "cancelled")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v does not wrap the context's error", err)
			}
		})
	}
}

func TestAnswerLimits(t *testing.T) {
	const big = 5 << 20
	for name, c := range map[string]struct {
		op     Operation
		status int
		size   int
		length string // Content-Length to claim, empty for a chunked answer
		limit  int    // 0 if the answer is accepted
	}{
		"at the limit":             {Encrypt, 200, limitAnswer, "", 0},
		"above the limit":          {Encrypt, 200, limitAnswer + 1, "", limitAnswer},
		"5 MiB without a length":   {Decrypt, 200, big, "", limitAnswer},
		"5 MiB with its length":    {Decrypt, 200, big, fmt.Sprint(big), limitAnswer},
		"metadata at the limit":    {MetadataRead, 200, limitMetadata, "", 0},
		"metadata above the limit": {MetadataRead, 200, limitMetadata + 1, "", limitMetadata},
		"5 MiB of metadata":        {MetadataRead, 200, big, "", limitMetadata},
		"upsert above the limit":   {UpsertRead, 200, limitAnswer + 1, "", limitAnswer},
		"an error above the limit": {Encrypt, 400, limitError + 1, "", limitError},
		"5 MiB of error":           {MetadataRead, 503, big, "", limitError},
	} {
		t.Run(name, func(t *testing.T) {
			conn := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if c.length != "" {
					w.Header().Set("Content-Length", c.length)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, strings.Repeat("x", c.size))
			}))
			answer, err := conn.Call(t.Context(), endpoint(t, conn, c.op), NewSecret(canaryToken), nil)
			if c.limit != 0 {
				assertFault(t, err, fault.Unavailable, fmt.Sprintf("larger than %d bytes", c.limit))
				return
			}
			if err != nil || len(answer.B) != c.size {
				t.Fatalf("%v, want %d bytes", err, c.size)
			}
			answer.Release()
		})
	}
}

// A length that a header claims changes nothing: neither a huge one with a
// small body nor a small one with a huge body.
func TestContentLengthIsNotTrusted(t *testing.T) {
	c := open(t, scripted(t, write("HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\n{}")))
	_, err := call(t, c)
	assertFault(t, err, fault.ConnectionFailed, "the connection broke")

	c = open(t, scripted(t, write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"+strings.Repeat("x", 5<<20))))
	if got, err := call(t, c); err != nil || got != "{}" {
		t.Errorf("%.20q, %v", got, err)
	}
}
