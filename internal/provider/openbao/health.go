package openbao

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"time"
)

// Health is what a server that answers says about itself without a token.
type Health struct {
	// Told is set when the answer was OpenBao's own. A proxy that lets only some
	// paths through may answer something else: then something is reachable, and
	// nothing of Initialized, Sealed and Standby is known.
	Told bool
	// Initialized and Sealed are OpenBao's state. Standby is set on a node that
	// forwards requests or redirects them.
	Initialized, Sealed, Standby bool
	// Status is the answer's HTTP status.
	Status int
	// Date is the answer's Date header, whole seconds; zero without one. AskedAt
	// and AnsweredAt are this host's clock before and after it, and bound the
	// moment to which Date belongs, but for its cut to seconds.
	Date, AskedAt, AnsweredAt time.Time
	// CertificateEnd is when the first of the certificates that the server sent
	// ends, of those that lead to the CA; AuthorityEnd when that CA's does, which
	// openbao.caCertFile holds. From either on no connection can be made. Where
	// several chains lead to a CA, they are those of the one that holds longest.
	// Both are zero over plain HTTP.
	CertificateEnd, AuthorityEnd time.Time
	// CertificateLife and AuthorityLife are how long the two are valid in all.
	CertificateLife, AuthorityLife time.Duration
}

// Health asks the server how it is, without a token and without a namespace: the
// path exists in the root namespace only. It passes beside the circuit breaker
// and is observed by nobody: the running provider never asks (design:
// config-and-cli, doctor's checks).
//
// Any HTTP answer is a success but a redirect, and but a 5xx that is not
// OpenBao's own, with which a load balancer says that it has no server. Failures
// are as those of Call.
func (c *Conn) Health(ctx context.Context) (Health, error) {
	x := exchange{op: healthRead, caller: ctx, limit: c.timeout, start: time.Now(), journey: &journey{Context: ctx}}
	limited, cancel := context.WithTimeout(x.journey, c.timeout)
	defer cancel()
	var h Health
	// The answer does not tell: net/http knows TLS only on connections of its own
	// kind, and dialTLS wraps them.
	limited = httptrace.WithClientTrace(limited, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if conn, ok := got.Conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
			below, root := ends(conn.ConnectionState().VerifiedChains)
			h.CertificateEnd, h.CertificateLife = below.NotAfter, below.NotAfter.Sub(below.NotBefore)
			h.AuthorityEnd, h.AuthorityLife = root.NotAfter, root.NotAfter.Sub(root.NotBefore)
		}
	}})
	h.AskedAt = time.Now()
	resp, err := c.transport.RoundTrip(c.healthRequest(limited))
	if err != nil {
		return Health{}, x.transportFailure(err)
	}
	defer resp.Body.Close()
	h.AnsweredAt, h.Status = time.Now(), resp.StatusCode
	h.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	if resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return Health{}, x.statusFailure(resp.StatusCode, nil)
	}
	body, err := readAll(resp.Body, limitError)
	switch {
	case errors.Is(err, errTooLarge): // nothing that OpenBao says is as large
	case err != nil:
		return Health{}, x.transportFailure(err)
	default:
		h.understand(body.B)
		body.Release()
	}
	if resp.StatusCode >= 500 && !h.Told {
		return Health{}, x.statusFailure(resp.StatusCode, nil)
	}
	return h, nil
}

func (c *Conn) healthRequest(ctx context.Context) *http.Request {
	u := c.base.JoinPath("v1", "sys", "health")
	// Every state answers 200, so that a state is told from a failure.
	u.RawQuery = "standbyok=true&perfstandbyok=true&sealedcode=200&uninitcode=200"
	return (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"bao-kms-provider"}},
	}).WithContext(ctx)
}

// understand takes the state from an answer in OpenBao's form.
func (h *Health) understand(body []byte) {
	var told struct {
		Initialized *bool `json:"initialized"`
		Sealed      *bool `json:"sealed"`
		Standby     *bool `json:"standby"`
	}
	if json.Unmarshal(body, &told) != nil || told.Initialized == nil || told.Sealed == nil || told.Standby == nil {
		return
	}
	h.Told, h.Initialized, h.Sealed, h.Standby = true, *told.Initialized, *told.Sealed, *told.Standby
}

// ends finds the certificates of the chain that holds longest which end first:
// of those below its root, and the root. A server's certificate that is its own
// root counts as both. Without a chain both are zero certificates.
func ends(chains [][]*x509.Certificate) (below, root *x509.Certificate) {
	below, root = new(x509.Certificate), new(x509.Certificate)
	var longest time.Time
	for _, chain := range chains {
		if len(chain) == 0 {
			continue
		}
		first, last := chain[0], chain[len(chain)-1]
		for _, cert := range chain[:len(chain)-1] {
			first = earlier(first, cert)
		}
		if end := earlier(first, last).NotAfter; end.After(longest) {
			longest, below, root = end, first, last
		}
	}
	return below, root
}

func earlier(a, b *x509.Certificate) *x509.Certificate {
	if b.NotAfter.Before(a.NotAfter) {
		return b
	}
	return a
}
