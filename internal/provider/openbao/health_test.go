package openbao

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// healthBody is OpenBao's, with fields that nobody reads.
func healthBody(initialized, sealed, standby bool) string {
	return fmt.Sprintf(`{"initialized":%v,"sealed":%v,"standby":%v,"performance_standby":false,"server_time_utc":1800000000,"version":"2.6.2"}`,
		initialized, sealed, standby)
}

// What a server answers, and what is made of it: OpenBao's own states, whatever
// the status, and what proxies and load balancers say in its place.
func TestHealthAnswers(t *testing.T) {
	active := healthBody(true, false, false)
	for name, c := range map[string]struct {
		status  int
		body    string
		want    Health
		failure fault.Cause // 0 for a success
		text    string
	}{
		"active":        {200, active, Health{Told: true, Initialized: true}, 0, ""},
		"sealed":        {200, healthBody(true, true, true), Health{Told: true, Initialized: true, Sealed: true, Standby: true}, 0, ""},
		"uninitialised": {200, healthBody(false, true, true), Health{Told: true, Sealed: true, Standby: true}, 0, ""},
		"standby":       {200, healthBody(true, false, true), Health{Told: true, Initialized: true, Standby: true}, 0, ""},
		// As a server answers that does not look at the query.
		"standby, by status":       {429, healthBody(true, false, true), Health{Told: true, Initialized: true, Standby: true}, 0, ""},
		"uninitialised, by status": {501, healthBody(false, true, true), Health{Told: true, Sealed: true, Standby: true}, 0, ""},
		"sealed, by status":        {503, healthBody(true, true, true), Health{Told: true, Initialized: true, Sealed: true, Standby: true}, 0, ""},

		"a proxy's 404":        {404, "<html>" + canaryText, Health{}, 0, ""},
		"a proxy's 403":        {403, `{"errors":["permission denied"]}`, Health{}, 0, ""},
		"rate limited":         {429, `{"errors":["quota"]}`, Health{}, 0, ""},
		"a login page":         {200, "<html>" + canaryText, Health{}, 0, ""},
		"no body":              {204, "", Health{}, 0, ""},
		"another JSON":         {200, `{"status":"UP"}`, Health{}, 0, ""},
		"one field missing":    {200, `{"initialized":true,"sealed":false}`, Health{}, 0, ""},
		"a field of text":      {200, `{"initialized":"true","sealed":false,"standby":false}`, Health{}, 0, ""},
		"a null":               {200, `{"initialized":null,"sealed":false,"standby":false}`, Health{}, 0, ""},
		"a list":               {200, `[` + active + `]`, Health{}, 0, ""},
		"cut JSON":             {200, active[:40], Health{}, 0, ""},
		"two documents":        {200, active + active, Health{}, 0, ""},
		"huge":                 {200, active + strings.Repeat(" ", 5<<20), Health{}, 0, ""},
		"at the limit":         {200, active + strings.Repeat(" ", limitError-len(active)), Health{Told: true, Initialized: true}, 0, ""},
		"above the limit":      {200, active + strings.Repeat(" ", limitError+1-len(active)), Health{}, 0, ""},
		"huge error":           {404, strings.Repeat("x", 5<<20), Health{}, 0, ""},
		"a balancer's 503":     {503, "<html>" + canaryText, Health{}, fault.Sealed, "check the load balancer in front of it"},
		"a balancer's 502":     {502, "", Health{}, fault.Unavailable, "HTTP 502"},
		"huge 503":             {503, strings.Repeat("x", 5<<20), Health{}, fault.Sealed, "HTTP 503"},
		"a redirect":           {307, active, Health{}, fault.Unavailable, "redirect, which is refused"},
		"a permanent redirect": {301, active, Health{}, fault.Unavailable, "redirect, which is refused"},
		"not modified":         {304, "", Health{}, fault.Unavailable, "redirect, which is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			calm(t)
			var requests atomic.Int32
			o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				if c.status >= 300 && c.status < 400 {
					w.Header().Set("Location", "/v1/elsewhere")
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			watch := &observed{}
			o.Observer = watch
			conn := open(t, o)
			before := time.Now()
			got, err := conn.Health(t.Context())
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			if c.failure != 0 {
				assertFault(t, err, c.failure, c.text)
				if got != (Health{}) {
					t.Errorf("%+v beside a failure", got)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if got.Date.Location() == nil || got.Date.Sub(before) > time.Second || before.Sub(got.Date) > 2*time.Second ||
					got.AskedAt.Before(before) || got.AnsweredAt.Before(got.AskedAt) {
					t.Errorf("date %v, asked %v, answered %v; began %v", got.Date, got.AskedAt, got.AnsweredAt, before)
				}
				if left := time.Until(got.CertificateEnd); left < 55*time.Minute || left > time.Hour || time.Until(got.AuthorityEnd) > time.Hour {
					t.Errorf("the certificate ends in %v, its authority at %v", left, got.AuthorityEnd)
				}
				want := c.want
				want.Status, want.Date, want.AskedAt, want.AnsweredAt = c.status, got.Date, got.AskedAt, got.AnsweredAt
				want.CertificateEnd, want.AuthorityEnd = got.CertificateEnd, got.AuthorityEnd
				want.CertificateLife, want.AuthorityLife = got.CertificateLife, got.AuthorityLife
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
			// It passes beside both.
			if counts := conn.breaker.machine.Counts(); counts.Requests != 0 || len(watch.list) != 0 {
				t.Errorf("the breaker counts %+v, observed %q", counts, watch.list)
			}
			conn.Close()
		})
	}
}

// Nothing goes along that a stranger at this address should not have, not even
// after the connection was used with a token.
func TestHealthSendsNothing(t *testing.T) {
	var headers []http.Header
	var urls []url.URL
	var methods []string
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		headers, urls, methods = append(headers, r.Header), append(urls, *r.URL), append(methods, r.Method)
		w.Header()["Date"] = nil
		if r.URL.Path == "/v1/sys/health" {
			_, _ = io.WriteString(w, healthBody(true, false, false))
		}
		if body, err := io.ReadAll(r.Body); err != nil || r.Method == http.MethodGet && len(body) > 0 {
			t.Errorf("a body of %q, %v", body, err)
		}
	})
	o.Namespace = "canary/namespace"
	conn := open(t, o)
	if _, err := call(t, conn); err != nil {
		t.Fatal(err)
	}
	got, err := conn.Health(t.Context())
	if err != nil || !got.Told {
		t.Fatalf("%+v, %v", got, err)
	}
	if !got.Date.IsZero() {
		t.Errorf("a date of %v without a header", got.Date)
	}
	if got.CertificateEnd.IsZero() {
		t.Error("the certificate is not known on a connection that was used before")
	}
	if methods[1] != http.MethodGet || urls[1].Path != "/v1/sys/health" ||
		urls[1].RawQuery != "standbyok=true&perfstandbyok=true&sealedcode=200&uninitcode=200" {
		t.Errorf("asked %s %v", methods[1], &urls[1])
	}
	if names := slices.Sorted(maps.Keys(headers[1])); !slices.Equal(names, []string{"User-Agent"}) {
		t.Errorf("sent the headers %q, want only User-Agent", names)
	}
}

// Failures are worded as those of calls.
func TestHealthFailures(t *testing.T) {
	ca := newAuthority(t)
	good := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, healthBody(true, false, false)) }
	tlsWith := func(edit func(*x509.Certificate)) Options {
		return serveTLS(t, ca, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, edit)}}, good)
	}
	other := tlsWith(nil)
	other.CAFile = newAuthority(t).file(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	at := func(address string) Options {
		return Options{Address: "https://" + address, CAFile: ca.file(t), ServerName: "bao.test", Timeout: 10 * time.Second}
	}
	silent := at(listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }).String())
	silent.Timeout = 50 * time.Millisecond
	stalled := peer(t, stays(okHead+"Content-Length: 100\r\n\r\n{"))
	stalled.Timeout = 300 * time.Millisecond
	for name, c := range map[string]struct {
		options Options
		cause   fault.Cause
		text    string
	}{
		"another CA":     {other, fault.TLSFailed, "no certificate in openbao.caCertFile has signed the server's"},
		"another name":   {tlsWith(func(c *x509.Certificate) { c.DNSNames = []string{"other.test"} }), fault.TLSFailed, "does not carry the name in openbao.tlsServerName"},
		"expired":        {tlsWith(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), fault.TLSFailed, "has expired or is not valid yet"},
		"plain HTTP":     {at(listen(t, httpScript("200 OK", healthBody(true, false, false))).String()), fault.TLSFailed, "does not speak TLS"},
		"refused":        {at(closed.Addr().String()), fault.ConnectionFailed, "nothing listens there"},
		"no such host":   {at("bao.invalid:1"), fault.DNSFailed, "openbao.address"},
		"silent":         {silent, fault.TimedOut, "openbao.timeout (50ms)"},
		"stalled":        {stalled, fault.TimedOut, "openbao.timeout (300ms)"},
		"cut":            {peer(t, cutOff(okHead+"Content-Length: 100\r\n\r\n{")), fault.ConnectionFailed, "connection broke"},
		"upgrade":        {peer(t, stays("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")), fault.Unavailable, "makes no sense"},
		"endless header": {peer(t, tells(okHead+strings.Repeat("X-Header: 0123456789\r\n", 100_000)+"\r\n{}")), fault.ConnectionFailed, "check what answers"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := open(t, c.options)
			start := time.Now()
			got, err := conn.Health(t.Context())
			assertFault(t, err, c.cause, c.text)
			if got != (Health{}) {
				t.Errorf("%+v beside a failure", got)
			}
			if took := time.Since(start); took > c.options.Timeout+noise {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("the caller gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := open(t, tlsWith(nil)).Health(ctx)
		assertFault(t, err, fault.Canceled, "")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the caller's end", err)
		}
	})
	t.Run("an open breaker", func(t *testing.T) {
		conn := open(t, at(closed.Addr().String()))
		for fault.CauseOf(func() error { _, err := call(t, conn); return err }()) != fault.BreakerOpen {
		}
		_, err := conn.Health(t.Context())
		assertFault(t, err, fault.ConnectionFailed, "nothing listens there")
	})
}

func TestHealthOverPlainHTTP(t *testing.T) {
	address := listen(t, httpScript("200 OK", healthBody(true, false, false))).String()
	got, err := open(t, Options{Address: "http://" + address, Timeout: 10 * time.Second, AllowPlainHTTP: true}).Health(t.Context())
	if err != nil || !got.Told || !got.CertificateEnd.IsZero() || !got.AuthorityEnd.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestHealthKnowsTheWholeChain: an intermediate that ends before the server's
// own certificate cuts the provider off as surely.
func TestHealthKnowsTheWholeChain(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	in := func(d time.Duration) time.Time { return now.Add(d).UTC() }
	for name, c := range map[string]struct{ leaf, intermediate, want time.Time }{
		"the server's ends first":       {in(20 * time.Minute), in(40 * time.Minute), in(20 * time.Minute)},
		"the intermediate's ends first": {in(40 * time.Minute), in(20 * time.Minute), in(20 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			ca := newAuthority(t)
			between := &authority{key: newKey(t)}
			template := *ca.cert
			template.SerialNumber, template.NotAfter = ca.cert.SerialNumber, c.intermediate
			template.Subject.CommonName, template.SubjectKeyId, template.AuthorityKeyId = "intermediate", nil, nil
			template.RawSubject = nil
			between.cert = sign(t, &template, ca.cert, between.key, ca.key)
			leaf := between.issue(t, func(x *x509.Certificate) { x.NotAfter = c.leaf })
			// One that has nothing to do with it is sent along, as happens.
			stray := newAuthority(t)
			leaf.Certificate = append(leaf.Certificate, between.cert.Raw, stray.cert.Raw)
			got, err := open(t, serveTLS(t, ca, &tls.Config{Certificates: []tls.Certificate{leaf}}, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, healthBody(true, false, false))
			})).Health(t.Context())
			if life := ca.cert.NotAfter.Sub(ca.cert.NotBefore); got.AuthorityLife != life {
				t.Errorf("the authority lives for %v, want %v", got.AuthorityLife, life)
			}
			if start := got.CertificateEnd.Add(-got.CertificateLife); err == nil && (start.After(time.Now()) || got.CertificateLife <= 0) {
				t.Errorf("the certificate is valid from %v", start)
			}
			if err != nil || !got.CertificateEnd.Equal(c.want) || !got.AuthorityEnd.Equal(ca.cert.NotAfter) {
				t.Errorf("ends %v and %v, %v; want %v and %v", got.CertificateEnd, got.AuthorityEnd, err, c.want, ca.cert.NotAfter)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	at := func(hours ...int) (chain []*x509.Certificate) {
		for _, h := range hours {
			chain = append(chain, &x509.Certificate{NotAfter: time.Unix(int64(h)*3600, 0)})
		}
		return chain
	}
	for name, c := range map[string]struct {
		chains      [][]*x509.Certificate
		below, root int // hours, 0 for the zero time
	}{
		"none":                       {nil, 0, 0},
		"an empty one":               {[][]*x509.Certificate{{}}, 0, 0},
		"one":                        {[][]*x509.Certificate{at(5, 9)}, 5, 9},
		"its own root":               {[][]*x509.Certificate{at(5)}, 5, 5},
		"the root ends first":        {[][]*x509.Certificate{at(5, 3)}, 5, 3},
		"the longest of two":         {[][]*x509.Certificate{at(5, 3, 9), at(5, 4, 9)}, 4, 9},
		"the longest, by its root":   {[][]*x509.Certificate{at(5, 5, 2), at(5, 4, 9)}, 4, 9},
		"the longest comes first":    {[][]*x509.Certificate{at(5, 9), at(5, 3, 9)}, 5, 9},
		"the server's limits both":   {[][]*x509.Certificate{at(2, 3, 9), at(2, 4, 8)}, 2, 9},
		"an empty one beside a good": {[][]*x509.Certificate{{}, at(5, 9)}, 5, 9},
	} {
		t.Run(name, func(t *testing.T) {
			below, root := ends(c.chains)
			for _, e := range []struct {
				got  time.Time
				want int
			}{{below.NotAfter, c.below}, {root.NotAfter, c.root}} {
				if e.got.IsZero() != (e.want == 0) || e.want != 0 && e.got.Unix() != int64(e.want)*3600 {
					t.Errorf("ends at %v and %v, want hours %d and %d", below.NotAfter, root.NotAfter, c.below, c.root)
				}
			}
		})
	}
}
