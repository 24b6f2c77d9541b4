package openbao

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/fault"
)

func (a *authority) clientCertificate(t testing.TB) ClientCertificate {
	t.Helper()
	c := a.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	return ClientCertificate{&c}
}

// However it is printed, a certificate with its key reads "[redacted]", also as
// an unexported field of another struct.
func TestClientCertificateIsRedacted(t *testing.T) {
	c := newAuthority(t).clientCertificate(t)
	encoded, err := json.Marshal(map[string]any{"c": c})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "c", c)
	for _, text := range []string{
		c.String(), c.GoString(), fmt.Sprintf("%v", c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%x", c),
		string(encoded), log.String(),
	} {
		if !strings.Contains(text, redacted) || strings.Contains(text, "0x") || len(text) > 150 {
			t.Errorf("it reads %q", text)
		}
	}
	for _, text := range []string{fmt.Sprintf("%+v", struct{ c ClientCertificate }{c}), fmt.Sprintf("%#v", struct{ c *ClientCertificate }{&c})} {
		if strings.Contains(text, "PrivateKey:(") || strings.Contains(text, "Curve") || len(text) > 150 {
			t.Errorf("inside another struct it reads %q", text)
		}
	}
}

// Nothing but the one request goes over the connection with the certificate, and
// requests without one never do, whichever comes first.
func TestACertificateIsPresentedOnce(t *testing.T) {
	ca := newAuthority(t)
	certificate := ca.clientCertificate(t)
	var seen []string
	remotes := map[string]int{}
	o := serveTLS(t, ca, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, ClientAuth: tls.RequestClientCert},
		func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, fmt.Sprintf("%s with %d", r.Header.Get("X-Vault-Token"), len(r.TLS.PeerCertificates)))
			remotes[r.RemoteAddr]++
			_, _ = io.WriteString(w, `{"auth":{"client_token":"t","lease_duration":60}}`)
		})
	watch := &observed{}
	o.Observer = watch
	c := open(t, o)
	use := login
	for range 2 {
		if _, err := call(t, c); err != nil {
			t.Fatal(err)
		}
		if answer, err := c.UseCertificate(t.Context(), CertLogin, certificate, use); err != nil || answer.Auth.ClientToken != "t" {
			t.Fatalf("UseCertificate: %+v, %v", answer, err)
		}
		if _, err := c.Use(t.Context(), JWTLogin, use); err != nil {
			t.Fatal(err)
		}
	}
	one := canaryToken + " with 0,  with 1,  with 0"
	if got := strings.Join(seen, ", "); got != one+", "+one {
		t.Errorf("the server saw %q", got)
	}
	if len(remotes) != 3 {
		t.Errorf("%d connections for two logins and all the rest, want 3: %v", len(remotes), remotes)
	}
	if got := strings.Join(watch.list, ","); strings.Count(got, "cert_login ok") != 2 {
		t.Errorf("observed %q", got)
	}
}

// The texts for what a server says to a certificate name the field and the next
// step, for every alert that there is.
func TestAlertTexts(t *testing.T) {
	fragments := map[tls.AlertError]string{
		42: "tls_client_ca_file", 43: "tls_client_ca_file", 46: "tls_client_ca_file", 48: "tls_client_ca_file",
		44: "revoked", 49: "not allowed", 45: "expired or not valid yet", 116: "got none",
	}
	for code := range 256 {
		alert := tls.AlertError(code)
		text := alertDetail(&net.OpError{Op: "remote error", Err: errors.New(alert.Error())})
		want := "see OpenBao's log"
		if f, known := fragments[alert]; known {
			want = f
			if !strings.Contains(text, "auth.cert.certificateFile") {
				t.Errorf("alert %d names no field: %q", code, text)
			}
		}
		if !strings.Contains(text, want) || !strings.Contains(text, "OpenBao's listener") {
			t.Errorf("alert %d reads %q, want %q in it", code, text, want)
		}
	}
	alertDetail(&net.OpError{Op: "remote error"})
}

func TestUseCertificateFailures(t *testing.T) {
	ca := newAuthority(t)
	certificate := ca.clientCertificate(t)
	// A peer that asks for the certificate and then breaks the connection.
	broken := listen(t, func(raw net.Conn) {
		conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, ClientAuth: tls.RequestClientCert})
		_ = conn.Handshake()
		_, _ = conn.Read(make([]byte, 1))
		_ = raw.(*net.TCPConn).SetLinger(0)
	})
	o := Options{Address: "https://" + broken.String(), CAFile: ca.file(t), ServerName: "bao.test", Timeout: 5e9}
	_, err := open(t, o).UseCertificate(t.Context(), CertLogin, certificate, login)
	assertFault(t, err, fault.ConnectionFailed, "after the client certificate was presented")

	// Failures that are the server's own read as ever.
	o.ServerName = "other.test"
	_, err = open(t, o).UseCertificate(t.Context(), CertLogin, certificate, login)
	assertFault(t, err, fault.TLSFailed, "openbao.tlsServerName")
	o.ServerName, o.CAFile = "bao.test", newAuthority(t).file(t)
	_, err = open(t, o).UseCertificate(t.Context(), CertLogin, certificate, login)
	assertFault(t, err, fault.TLSFailed, "openbao.caCertFile")
	o.Address = "https://127.0.0.1:1"
	_, err = open(t, o).UseCertificate(t.Context(), CertLogin, certificate, login)
	assertFault(t, err, fault.ConnectionFailed, "nothing listens there")

	plain, err := New(Options{Address: "http://127.0.0.1:1", AllowPlainHTTP: true, Timeout: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plain.UseCertificate(t.Context(), CertLogin, certificate, login)
	assertFault(t, err, fault.LoginRejected, "openbao.address")

	// The caller's own end stays what it is.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = open(t, o).UseCertificate(ctx, CertLogin, certificate, login)
	assertFault(t, err, fault.Canceled, "cancelled")
}
