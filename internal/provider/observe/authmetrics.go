package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// authMetrics count what became of the token.
type authMetrics struct {
	logins, renewals, recoveries *prometheus.CounterVec
}

func newAuthMetrics() authMetrics {
	m := authMetrics{
		logins:     counters("auth_login_total", "Logins to OpenBao by outcome: ok or an error class.", "status"),
		renewals:   counters("auth_renewal_total", "Renewals of the token by outcome: ok or an error class.", "status"),
		recoveries: counters("auth_recovery_total", "Logins after OpenBao rejected the token, by outcome: ok or an error class.", "status"),
	}
	for _, c := range []*prometheus.CounterVec{m.logins, m.renewals, m.recoveries} {
		c.WithLabelValues(ok)
		for _, class := range authClasses {
			c.WithLabelValues(string(class))
		}
	}
	return m
}

func (m authMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.logins, m.renewals, m.recoveries}
}

// LoginDone counts one login: status is "ok" or an error class, anything else
// counts as "unknown".
func (m *Metrics) LoginDone(status string) { m.auth.logins.WithLabelValues(okOrClass(status)).Inc() }

// RenewalDone counts one renewal of the token, as LoginDone does.
func (m *Metrics) RenewalDone(status string) {
	m.auth.renewals.WithLabelValues(okOrClass(status)).Inc()
}

// RecoveryDone counts one login after a rejected token, as LoginDone does.
func (m *Metrics) RecoveryDone(status string) {
	m.auth.recoveries.WithLabelValues(okOrClass(status)).Inc()
}
