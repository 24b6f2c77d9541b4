package openbao

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// ClientCertificate is a certificate, its chain and its private key. However it
// is printed, encoded or logged, it reads "[redacted]" (design: overview,
// invariant 10).
type ClientCertificate struct {
	// A pointer, because fmt prints the fields of a struct that it meets as an
	// unexported field without asking their methods.
	pair *tls.Certificate
}

// NewClientCertificate joins a chain, the client's own certificate first, with
// the key of that one. It checks nothing.
func NewClientCertificate(chain [][]byte, key crypto.Signer) ClientCertificate {
	return ClientCertificate{&tls.Certificate{Certificate: chain, PrivateKey: key}}
}

// String returns "[redacted]".
func (ClientCertificate) String() string { return redacted }

// GoString returns "[redacted]".
func (ClientCertificate) GoString() string { return redacted }

// Format prints "[redacted]" under every verb.
func (ClientCertificate) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText encodes as "[redacted]".
func (ClientCertificate) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue logs as "[redacted]".
func (ClientCertificate) LogValue() slog.Value { return slog.StringValue(redacted) }

// UseCertificate is Use over a connection of its own, on which the client
// presents the certificate: for logins and renewals of the cert method. The
// connection serves this one request and is closed after it, so that no other
// request ever goes under a certificate, and none under a replaced one.
func (c *Conn) UseCertificate(ctx context.Context, op Operation, certificate ClientCertificate, fn func(context.Context, *api.Client) (*api.Secret, error)) (*api.Secret, error) {
	t, ok := c.transport.(*http.Transport)
	if !ok || t.TLSClientConfig == nil {
		return nil, fault.New(fault.LoginRejected, op.Words(),
			"a client certificate cannot be presented without TLS: set openbao.address to an https URL, or auth.method to jwt")
	}
	p := &presentation{}
	once := t.Clone()
	once.DisableKeepAlives = true
	once.DialTLSContext = p.dial(dialTLS(c.timeout, p.config(t.TLSClientConfig, certificate)))
	defer once.CloseIdleConnections()

	own := &Conn{
		base:       c.base,
		namespace:  c.namespace,
		timeout:    c.timeout,
		transport:  once,
		observer:   c.observer,
		requestIDs: c.requestIDs,
		breaker:    c.breaker,
	}
	client, err := newLibraryClient(own)
	if err != nil {
		return nil, fault.New(fault.Unknown, op.Words(), "%s", err.Error())
	}
	own.client = client
	answer, err := own.Use(ctx, op, fn)
	return answer, p.explain(err)
}

// presentation is what became of a client certificate on its connection. Dial
// and request run in different goroutines.
type presentation struct {
	asked     atomic.Bool // the server asked for a certificate
	conn      atomic.Pointer[alertConn]
	handshake atomic.Pointer[error]
}

func (p *presentation) config(base *tls.Config, certificate ClientCertificate) *tls.Config {
	config := base.Clone()
	// A callback and not Certificates: it presents the certificate whatever
	// authorities the server names. Where that is wrong, a refusal tells more
	// than a login without any certificate.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		p.asked.Store(true)
		return certificate.pair, nil
	}
	return config
}

type dialFunc = func(context.Context, string, string) (net.Conn, error)

func (p *presentation) dial(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			p.handshake.Store(&err)
			return nil, err
		}
		if conn, ok := conn.(*alertConn); ok {
			p.conn.Store(conn)
		}
		return conn, nil
	}
}

// explain says more about a failure than a connection without a certificate
// could. The cause stays.
func (p *presentation) explain(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Err != nil {
		return err
	}
	if detail := p.detail(f); detail != "" {
		told := *f
		told.Detail = detail
		return &told
	}
	return err
}

func (p *presentation) detail(f *fault.Error) string {
	refused := f.Cause == fault.LoginRejected && f.HTTPStatus != http.StatusNotFound
	switch alert := p.alert(); {
	case alert != nil:
		return alertDetail(alert)
	case refused && !p.asked.Load():
		return "OpenBao's listener did not ask for the client certificate: set its tls_disable_client_certs to false, " +
			"and let nothing in between end the TLS connection"
	case refused:
		return "OpenBao refused the client certificate or the role: check auth.cert.mountPath, that the role in auth.cert.name exists, " +
			"that it trusts the CA of auth.cert.certificateFile, and its allowed names"
	case f.Cause == fault.ConnectionFailed && p.asked.Load():
		return "the connection broke after the client certificate was presented: see OpenBao's log, " +
			"and check that its listener trusts the CA of auth.cert.certificateFile"
	}
	return ""
}

// alert is the server's TLS alert, nil if there was none. Before TLS 1.3 a
// refused certificate fails the handshake, since then the first read after it.
func (p *presentation) alert() *net.OpError {
	if conn := p.conn.Load(); conn != nil {
		return conn.alert.Load()
	}
	var op *net.OpError
	if err := p.handshake.Load(); err != nil && errors.As(*err, &op) && op.Op == "remote error" {
		return op
	}
	return nil
}

// The alerts of RFC 8446 that speak of the client's certificate.
const (
	alertRevoked  tls.AlertError = 44
	alertExpired  tls.AlertError = 45
	alertNoAccess tls.AlertError = 49
	alertRequired tls.AlertError = 116
)

var alertsUnknown = []tls.AlertError{42, 43, 46, 48} // bad, unsupported, unknown, of an unknown CA

func alertDetail(alert *net.OpError) string {
	is := func(a tls.AlertError) bool { return alert.Err != nil && alert.Err.Error() == a.Error() }
	for _, a := range alertsUnknown {
		if is(a) {
			return "OpenBao's listener refused the client certificate: have its tls_client_ca_file trust the CA of auth.cert.certificateFile, " +
				"or put the chain into that file"
		}
	}
	switch {
	case is(alertRevoked), is(alertNoAccess):
		return "OpenBao's listener refused the client certificate as revoked or not allowed: replace auth.cert.certificateFile and auth.cert.keyFile"
	case is(alertExpired):
		return "OpenBao's listener refused the client certificate as expired or not valid yet: " +
			"replace auth.cert.certificateFile and auth.cert.keyFile, or correct the clocks"
	case is(alertRequired):
		return "OpenBao's listener requires a client certificate and got none: check auth.cert.certificateFile"
	}
	return "OpenBao's listener ended the TLS connection with an alert after the client certificate was presented: see OpenBao's log"
}
