package config

import (
	"strings"
	"testing"
)

func TestRulesBetweenFields(t *testing.T) {
	cases := []struct {
		name  string
		edits []string
		field string // "" when the document is accepted
		text  string
	}{
		{"listeners on one address", []string{"server.metricsAddress=127.0.0.1:8082"}, "server.healthAddress", "same address as server.metricsAddress"},
		{"a listener on all addresses", []string{`server.metricsAddress=":8082"`}, "server.healthAddress", "same address"},
		{"a listener on all addresses of IPv6", []string{`server.metricsAddress="[::]:8082"`}, "server.healthAddress", "same address"},
		{"two names of one address", []string{"server.metricsAddress=localhost:8082"}, "server.healthAddress", "same address"},
		{"two spellings of one address", []string{`server.metricsAddress="[::ffff:127.0.0.1]:8082"`}, "server.healthAddress", "same address"},
		{"one port of two addresses", []string{"server.metricsAddress=127.0.0.2:8082"}, "", ""},
		{"both listeners disabled", []string{`server.metricsAddress=""`, `server.healthAddress=""`}, "", ""},
		{"one listener disabled", []string{`server.metricsAddress=""`}, "", ""},
		{"any port on two addresses", []string{"server.metricsAddress=127.0.0.1:0", "server.healthAddress=localhost:0"}, "", ""},
		{"any port on one address", []string{"server.metricsAddress=127.0.0.1:0", "server.healthAddress=127.0.0.1:0"}, "server.healthAddress", "same address"},

		{"report socket beside the KMS socket", []string{"server.reportSocketPath=/run/openbao-kms/report.sock"}, "server.reportSocketPath", "directory of server.socketPath"},
		{"report socket is the KMS socket", []string{"server.reportSocketPath=/run/openbao-kms/kms.sock"}, "server.reportSocketPath", "directory of server.socketPath"},
		{"report socket beside the state", []string{"server.reportSocketPath=/var/lib/openbao-kms/state/r.sock"}, "server.reportSocketPath", "directory of state.path"},
		{"report socket in its own directory", []string{"server.reportSocketPath=/run/openbao-kms-report/r.sock"}, "", ""},
		{"state is the socket", []string{"state.path=/run/openbao-kms/kms.sock"}, "state.path", "same path as server.socketPath"},

		{"probe interval equals staleness", []string{"status.probeInterval=2m"}, "status.probeInterval", "not below status.statusMaxStaleness"},
		{"probe interval above staleness", []string{"status.statusMaxStaleness=29s"}, "status.probeInterval", "not below status.statusMaxStaleness"},
		{"probe interval just below staleness", []string{"status.probeInterval=119999ms"}, "", ""},
		{"timeout equals staleness", []string{"openbao.timeout=2m"}, "openbao.timeout", "not below status.statusMaxStaleness"},
		{"timeout just below staleness", []string{"openbao.timeout=119999ms"}, "", ""},
		{"increment equals window", []string{"auth.loginBeforeTokenExpiry=1h"}, "auth.loginBeforeTokenExpiry", "not below auth.tokenRenewalIncrement"},
		{"increment below window", []string{"auth.tokenRenewalIncrement=1m"}, "auth.loginBeforeTokenExpiry", "not below auth.tokenRenewalIncrement"},
		{"increment just above window", []string{"auth.tokenRenewalIncrement=300001ms"}, "", ""},

		{"correlation needs an incident", []string{"logging.level=debug", "logging.debugCorrelation.enabled=true"}, "logging.debugCorrelation.enabled", "needs logging.debugCorrelation.incidentId"},
		{"correlation needs level debug", []string{"logging.debugCorrelation.enabled=true", "logging.debugCorrelation.incidentId=INC-1"}, "logging.debugCorrelation.enabled", "needs logging.level debug"},
		{"correlation with both", []string{"logging.level=debug", "logging.debugCorrelation.enabled=true", "logging.debugCorrelation.incidentId=INC-1", "logging.debugCorrelation.ttl=1h"}, "", ""},
		{"an incident without correlation", []string{"logging.debugCorrelation.incidentId=INC-1"}, "", ""},

		{"the cert method", cert, "", ""},
		{"both login sections", []string{"auth.cert.mountPath=auth/cert", "auth.cert.certificateFile=/c", "auth.cert.keyFile=/k"}, "auth.cert", "not used by auth.method jwt"},
		{"jwt section for the cert method", append(append([]string{}, cert...), "auth.jwt.mountPath=auth/jwt", "auth.jwt.role=r", "auth.jwt.jwtFile=/j"), "auth.jwt", "not used by auth.method cert"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			doc := document(c.edits...)
			if c.field == "" {
				parsed(t, doc)
				return
			}
			if p := one(t, doc); p.Field != c.field || !strings.Contains(p.Text, c.text) {
				t.Errorf("got %v, want %s %s", p, c.field, c.text)
			}
		})
	}
}

func TestMethodNeedsItsSection(t *testing.T) {
	for method, want := range map[string][]string{
		"jwt":  {"auth.jwt.mountPath", "auth.jwt.role", "auth.jwt.jwtFile"},
		"cert": {"auth.cert.mountPath", "auth.cert.certificateFile", "auth.cert.keyFile"},
	} {
		ps := refused(t, document("auth.jwt.mountPath", "auth.jwt.role", "auth.jwt.jwtFile", "auth.method="+method))
		var got []string
		for _, p := range ps {
			got = append(got, p.Field)
			if p.Text != "is missing" || p.Line != 1 {
				t.Errorf("%s: got %v, want it missing from the section on line 1", method, p)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: got %v, want %v", method, got, want)
		}
	}
}

// Plain HTTP needs a loopback IP address and serve --dev, both.
func TestPlainHTTP(t *testing.T) {
	cases := []struct {
		address string
		dev     bool
		text    string // "" when accepted
	}{
		{"http://127.0.0.1:8200", true, ""},
		{"http://127.9.9.9:8200", true, ""},
		{"http://[::1]:8200", true, ""},
		{"https://bao.example.org", true, ""},
		{"http://127.0.0.1:8200", false, "only serve --dev accepts plain http"},
		{"http://[::1]:8200", false, "only serve --dev"},
		{"http://localhost:8200", true, "loopback IP address"},
		{"http://localhost:8200", false, "loopback IP address"},
		{"http://10.0.0.1:8200", true, "loopback IP address"},
		{"http://bao.example.org", false, "loopback IP address"},
		{"http://127.0.0.1.example.org", true, "loopback IP address"},
	}
	for _, c := range cases {
		var opts []Option
		if c.dev {
			opts = append(opts, AllowPlainHTTP)
		}
		doc := document(`openbao.address="` + c.address + `"`)
		if c.text == "" {
			if got := parsed(t, doc, opts...).OpenBao.Address; got != c.address {
				t.Errorf("%s became %s", c.address, got)
			}
			continue
		}
		p := one(t, doc, opts...)
		if p.Field != "openbao.address" || p.Text != "is not encrypted" || !strings.Contains(p.Fix, c.text) {
			t.Errorf("%s, dev %v: got %v, want %q", c.address, c.dev, p, c.text)
		}
	}
}
