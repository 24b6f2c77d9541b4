package transit_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// connect is a connection to a server that nobody is logged in to.
func connect(t *testing.T, server *stack.Transit, caFile, name string) *openbao.Conn {
	t.Helper()
	conn, err := openbao.New(openbao.Options{Address: server.Address(), CAFile: caFile, ServerName: name, Timeout: 10 * time.Second, Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// A new server, and then one that is sealed, unsealed and stopped. A namespace in
// the configuration changes nothing: the path is the root namespace's.
func TestRealHealth(t *testing.T) {
	ctx := t.Context()
	server := stacktest.Transit(t, stack.TransitOptions{})
	conn := connect(t, server, server.CAFile(), server.ServerName())
	check := func(when string, want openbao.Health) {
		t.Helper()
		got, err := conn.Health(ctx)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		// Both clocks are this host's.
		if got.Date.Before(got.AskedAt.Add(-time.Second-time.Millisecond)) || got.Date.After(got.AnsweredAt) {
			t.Errorf("%s: the date is %v, asked %v, answered %v", when, got.Date, got.AskedAt, got.AnsweredAt)
		}
		if left := time.Until(got.CertificateEnd); left < 23*time.Hour || left > 25*time.Hour {
			t.Errorf("%s: the certificate ends in %v, issued for a day", when, left)
		}
		if left := time.Until(got.AuthorityEnd); left < 47*time.Hour || left > 49*time.Hour {
			t.Errorf("%s: its authority ends in %v, made for two days", when, left)
		}
		want.Status, want.Date, want.AskedAt, want.AnsweredAt = 200, got.Date, got.AskedAt, got.AnsweredAt
		want.CertificateEnd, want.AuthorityEnd = got.CertificateEnd, got.AuthorityEnd
		want.CertificateLife, want.AuthorityLife = 25*time.Hour, 49*time.Hour // with the hour that they are antedated
		if got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	check("unsealed", openbao.Health{Told: true, Initialized: true})
	if err := server.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	check("sealed", openbao.Health{Told: true, Initialized: true, Sealed: true, Standby: true})
	if err := server.Unseal(ctx); err != nil {
		t.Fatal(err)
	}
	check("unsealed again", openbao.Health{Told: true, Initialized: true})

	fails := func(when string, conn *openbao.Conn, want fault.Cause, text string) {
		t.Helper()
		got, err := conn.Health(ctx)
		if fault.CauseOf(err) != want || !strings.Contains(err.Error(), text) || got != (openbao.Health{}) {
			t.Errorf("%s: %+v, %v; want %q", when, got, err, text)
		}
	}
	other, err := stack.NewCA(filepath.Join(t.TempDir(), "ca"))
	if err != nil {
		t.Fatal(err)
	}
	fails("another CA", connect(t, server, other.CertFile(), server.ServerName()), fault.TLSFailed, "openbao.caCertFile")
	fails("another name", connect(t, server, server.CAFile(), "other.test"), fault.TLSFailed, "openbao.tlsServerName")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	fails("stopped", conn, fault.ConnectionFailed, "nothing listens there")
}
