package auth

import (
	"errors"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

const (
	// Delays after logins that failed: doubled each time, from the first to the
	// last. One that OpenBao refused will be refused again until somebody has
	// repaired it. One that never got that far, because OpenBao was down or sealed,
	// is due as soon as it is back: then all Secrets of the cluster wait for it.
	firstBackoff  = time.Second
	lastBackoff   = 30 * time.Second
	outageBackoff = 5 * time.Second
	// localDelay is the delay after a credential that failed its local check:
	// nothing was sent, so it protects nobody but the disk, and a longer one would
	// only put off healing when the file has been replaced.
	localDelay = time.Second

	// A recovery may start this long after the one before it. The delay doubles
	// with each further rejection, up to the last, and a time without any
	// rejection forgets it.
	firstRecoveryDelay = 5 * time.Second
	lastRecoveryDelay  = 5 * time.Minute
	quietTime          = 10 * time.Minute
)

// errLocal marks a failure for which nothing was sent to OpenBao.
var errLocal = errors.New("nothing was sent")

// loginDelay says when the next login may start. It does no locking: the
// Session's mu guards it.
type loginDelay struct {
	next    time.Time
	backoff time.Duration
	// failure is why the last login failed, nil after a success.
	failure error
}

func (d *loginDelay) allows(now time.Time) bool { return !now.Before(d.next) }

// failed notes a login that ended at the moment at.
func (d *loginDelay) failed(err error, at time.Time) {
	d.failure = err
	if errors.Is(err, errLocal) {
		d.next = at.Add(localDelay)
		return
	}
	last := lastBackoff
	if isOutage(err) {
		last = outageBackoff
	}
	d.backoff = min(max(2*d.backoff, firstBackoff), last)
	d.next = at.Add(d.backoff)
}

// isOutage reports whether the login has not been judged by OpenBao at all.
func isOutage(err error) bool {
	switch fault.CauseOf(err) {
	case fault.ConnectionFailed, fault.DNSFailed, fault.TLSFailed, fault.TimedOut, fault.Sealed, fault.Unavailable:
		return true
	}
	return false
}

func (d *loginDelay) succeeded() { *d = loginDelay{} }

// recoveryDelay says when the next recovery may start: also recoveries whose
// logins succeed must not follow each other without end, as they do when it is
// the policy that OpenBao rejects. The Session's mu guards it.
type recoveryDelay struct {
	started   time.Time // the last login that a recovery made
	delay     time.Duration
	rejection time.Time
}

// rejected notes that OpenBao rejected the current token, or that a call was
// made that it would reject.
func (d *recoveryDelay) rejected(now time.Time) {
	// While there is no token nothing can be rejected: that is no quiet time.
	if now.Sub(d.rejection) >= quietTime && now.Sub(d.started) >= quietTime {
		d.delay = 0
	}
	d.rejection = now
}

func (d *recoveryDelay) allows(now time.Time) bool {
	return d.started.IsZero() || !now.Before(d.started.Add(max(d.delay, firstRecoveryDelay)))
}

// start notes a recovery that starts now.
func (d *recoveryDelay) start(now time.Time) {
	d.started = now
	d.delay = min(max(2*d.delay, firstRecoveryDelay), lastRecoveryDelay)
}

// again notes a further login of the same recovery, after one that failed.
func (d *recoveryDelay) again(now time.Time) { d.started = now }
