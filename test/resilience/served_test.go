package resilience

import (
	"strings"
	"time"
)

// What reached the servers, and what bounds it: nothing may stampede.

// served counts requests of the provider that reached a server, by its audit log: not those that a sealed server or a rate limit
// turned away.
type served struct{ logins, renewals, encrypts, decrypts, reads int }

// served reads the audit log.
func (w *world) served() served {
	w.t.Helper()
	all, err := w.transit.Audited(0)
	w.must(err)
	var s served
	for _, a := range all {
		switch {
		case strings.HasSuffix(a.Path, "/login"):
			s.logins++
		case strings.HasSuffix(a.Path, "/renew-self"):
			s.renewals++
		case strings.Contains(a.Path, "/encrypt/"):
			s.encrypts++
		case strings.Contains(a.Path, "/decrypt/"):
			s.decrypts++
		case a.Operation == "read":
			s.reads++
		}
	}
	return s
}

func (s served) minus(o served) served {
	return served{s.logins - o.logins, s.renewals - o.renewals, s.encrypts - o.encrypts, s.decrypts - o.decrypts, s.reads - o.reads}
}

// since is what reached the servers since a phase began.
func (w *world) since(p *phase) served {
	w.t.Helper()
	return w.served().minus(p.served)
}

// atMost holds a count that must not stampede against its bound.
func (w *world) atMost(what string, got, bound int) {
	w.t.Helper()
	w.note("%s: %d (bound %d)", what, got, bound)
	if got > bound {
		w.t.Errorf("%s: %d, at most %d are allowed", what, got, bound)
	}
}

// untilRecovery is how long the next recovery may be away when the first was at most so long ago: they start after 0, 5, 15, 35 s.
func untilRecovery(ago time.Duration) time.Duration {
	delay, at := 5*time.Second, 5*time.Second
	for at <= ago {
		delay *= 2
		at += delay
	}
	return at - ago
}

// recoveries is how many recoveries may start within d of the first: the second 5 s after it, and each further one after twice the delay
// (design: openbao, auth).
func recoveries(d time.Duration) int {
	n := 1
	for delay, at := 5*time.Second, 5*time.Second; at <= d; n++ {
		delay *= 2
		at += delay
	}
	return n
}

// sentNow is how many requests the provider has sent since it started, whatever became of them.
func (w *world) sentNow() int {
	w.t.Helper()
	return w.metrics().sent()
}

// metrics are the provider's now.
func (w *world) metrics() metrics {
	w.t.Helper()
	m, err := scrape(w.t.Context(), w.provider)
	w.must(err)
	return m
}

// counted holds the provider's own counter of logins or renewals, whatever became of them, against what the servers have seen. One may be
// under way.
func (w *world) counted(metric string, want int) {
	w.t.Helper()
	if got := int(w.metrics().sum(metric)); got < want-1 || got > want+1 {
		w.t.Errorf("%s adds up to %d, the servers have seen %d", metric, got, want)
	}
}
