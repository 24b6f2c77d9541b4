package openbao

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// Health is what a server that answers says about itself without a token.
type Health struct {
	// Told is set when the answer was OpenBao's own. A proxy that lets only some
	// paths through may answer something else: then the server is reachable, and
	// nothing below is known but Date and CertificateEnd.
	Told bool
	// Initialized and Sealed are OpenBao's state. Standby is set on a node that
	// forwards requests or redirects them.
	Initialized, Sealed, Standby bool
	// Date is the answer's Date header, whole seconds; zero without one. AskedAt
	// and AnsweredAt are this host's clock around it.
	Date, AskedAt, AnsweredAt time.Time
	// CertificateEnd is when the server's certificate ends; zero over plain HTTP.
	CertificateEnd time.Time
}

// Health asks the server how it is, without a token and without a namespace: the
// path exists in the root namespace only. Any HTTP answer is a success but a
// redirect; failures are as those of Call. It passes beside the circuit breaker
// and is observed by nobody: the running provider never asks (design:
// config-and-cli, doctor's checks).
func (c *Conn) Health(ctx context.Context) (Health, error) {
	x := exchange{op: healthRead, caller: ctx, limit: c.timeout, start: time.Now(), journey: &journey{Context: ctx}}
	limited, cancel := context.WithTimeout(x.journey, c.timeout)
	defer cancel()
	u := c.base.JoinPath("v1", "sys", "health")
	// Every state answers 200, so that a state is told from a failure.
	u.RawQuery = "standbyok=true&perfstandbyok=true&sealedcode=200&uninitcode=200"
	r := (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"bao-kms-provider"}},
	}).WithContext(limited)
	h := Health{AskedAt: time.Now()}
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		return Health{}, x.transportFailure(err)
	}
	defer resp.Body.Close()
	h.AnsweredAt = time.Now()
	h.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		h.CertificateEnd = resp.TLS.PeerCertificates[0].NotAfter
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return Health{}, x.statusFailure(resp.StatusCode, nil)
	}
	body, err := readAll(resp.Body, limitError)
	if err != nil {
		return Health{}, fault.New(fault.Unavailable, x.op.Words(), "the answer cannot be read: check what answers at openbao.address")
	}
	defer body.Release()
	var told struct {
		Initialized *bool `json:"initialized"`
		Sealed      *bool `json:"sealed"`
		Standby     bool  `json:"standby"`
	}
	if json.Unmarshal(body.B, &told) == nil && told.Initialized != nil && told.Sealed != nil {
		h.Told, h.Initialized, h.Sealed, h.Standby = true, *told.Initialized, *told.Sealed, told.Standby
	}
	return h, nil
}
