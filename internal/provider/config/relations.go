package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
)

// relate judges the rules between fields. Each looks only at fields that are
// sound by themselves, and is reported at the field that is most likely wrong.
func (r *report) relate(c *Config, o options) {
	r.relateAddress(c, o)
	r.relateListeners(c)
	r.relateSockets(c)
	r.relateMethod(c)
	r.relateTimes(c)
	r.relateCorrelation(c)
}

func (r *report) relateAddress(c *Config, o options) {
	if !r.sound("openbao.address") {
		return
	}
	plain, loopback := isPlainHTTP(c.OpenBao.Address)
	switch {
	case plain && !loopback:
		r.at("openbao.address", "is not encrypted", "write https://; plain http is only for a loopback IP address, with serve --dev")
	case plain && !o.plainHTTP:
		r.at("openbao.address", "is not encrypted", "write https://; only serve --dev accepts plain http, to try things out on one machine")
	}
}

func (r *report) relateListeners(c *Config) {
	s := c.Server
	if !r.sound("server.metricsAddress", "server.healthAddress") || s.MetricsAddress == "" || s.HealthAddress == "" {
		return
	}
	if s.MetricsAddress == s.HealthAddress || overlap(s.MetricsAddress, s.HealthAddress) {
		r.at("server.healthAddress", "is the same address as server.metricsAddress", "give each its own port, or leave one empty to disable it")
	}
}

// overlap tells whether two listeners would meet: one port, and one host or a
// host that stands for all. Port 0 is a new port each time.
func overlap(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	if portA != portB || portA == "0" {
		return false
	}
	ipA, anyA := listenIP(hostA)
	ipB, anyB := listenIP(hostB)
	return anyA || anyB || ipA == ipB && (ipA.IsValid() || hostA == hostB)
}

func listenIP(host string) (ip netip.Addr, all bool) {
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	return ip.Unmap(), host == "" || err == nil && ip.IsUnspecified()
}

func (r *report) relateSockets(c *Config) {
	s := c.Server
	if r.sound("server.socketPath", "state.path") && s.SocketPath == c.State.Path {
		r.at("state.path", "is the same path as server.socketPath", "give the state a file of its own, in a directory that only the provider's user can write")
	}
	if s.ReportSocketPath == "" || !r.sound("server.reportSocketPath") {
		return
	}
	dir := filepath.Dir(s.ReportSocketPath)
	const fix = "put the report socket into a directory of its own, so that its readers can reach nothing else"
	switch {
	case r.sound("server.socketPath") && dir == filepath.Dir(s.SocketPath):
		r.at("server.reportSocketPath", "is in the directory of server.socketPath", fix)
	case r.sound("state.path") && dir == filepath.Dir(c.State.Path):
		r.at("server.reportSocketPath", "is in the directory of state.path", fix)
	}
}

func (r *report) relateMethod(c *Config) {
	if !r.sound("auth.method") {
		return
	}
	type section struct {
		name    string
		present bool
		typ     reflect.Type
	}
	needed := section{MethodJWT, c.Auth.JWT != nil, reflect.TypeFor[JWTAuth]()}
	other := section{MethodCert, c.Auth.Cert != nil, reflect.TypeFor[CertAuth]()}
	if c.Auth.Method == MethodCert {
		needed, other = other, needed
	}
	if !needed.present && !r.has("auth."+needed.name) && r.sound("auth") {
		for _, f := range fieldsOf(needed.typ) {
			r.absent(f, "auth."+needed.name+"."+f.name, r.lines["auth"])
		}
	}
	if other.present {
		r.at("auth."+other.name, "is not used by auth.method "+c.Auth.Method, "remove the section, or change auth.method")
	}
}

func (r *report) relateTimes(c *Config) {
	r.below("status.probeInterval", c.Status.ProbeInterval, "status.statusMaxStaleness", c.Status.StatusMaxStaleness,
		"else Status is stale before the next probe starts")
	r.below("openbao.timeout", c.OpenBao.Timeout, "status.statusMaxStaleness", c.Status.StatusMaxStaleness,
		"else a slow answer is stale when it arrives")
	r.below("auth.loginBeforeTokenExpiry", c.Auth.LoginBeforeExpiry, "auth.tokenRenewalIncrement", c.Auth.TokenRenewalIncrement,
		"else every renewed token is due for renewal at once")
}

// below reports a duration that is not below another one.
func (r *report) below(field string, d Duration, limitField string, limit Duration, why string) {
	if r.sound(field, limitField) && d >= limit {
		r.at(field, "is not below "+limitField+", "+why, "shorten it, or lengthen "+limitField)
	}
}

func (r *report) relateCorrelation(c *Config) {
	d := c.Logging.DebugCorrelation
	if !d.Enabled {
		return
	}
	if r.sound("logging.level") && c.Logging.Level != "debug" {
		r.at("logging.debugCorrelation.enabled", "needs logging.level debug", "write debug as logging.level, or false here")
	}
	if r.sound("logging.debugCorrelation.incidentId") && d.IncidentID == "" {
		r.at("logging.debugCorrelation.enabled", "needs logging.debugCorrelation.incidentId", "name the incident there, or write false here")
	}
}
