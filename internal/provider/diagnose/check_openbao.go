package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// Reason codes of OpenBao's checks that are no error classes.
const (
	reasonNotInitialized = "openbao_not_initialized"
	reasonCAFile         = "ca_file_unusable"
	reasonAddress        = "openbao_address_refused"
	reasonCertificateEnd = "certificate_expires_soon"
	reasonAuthorityEnd   = "authority_expires_soon"
	reasonClock          = "clock_skew"
)

const (
	fieldCA = "openbao.caCertFile"
	// certificateWarning is how long before its end the server's certificate, or
	// its authority's, is told. Without it no node of the cluster can decrypt.
	certificateWarning = 14 * 24 * time.Hour
	// skewWarning is how far the clocks may differ without a word; skewLimit is
	// what fails where no leeway is configured.
	skewWarning = 5 * time.Second
	skewLimit   = 30 * time.Second
)

// checkReachable asks OpenBao how it is, for this check and the next two.
func checkReachable(ctx context.Context, e *exam) finding {
	if e.way == nil {
		return skippedFor(openbaoTLS)
	}
	h, err := e.way.Conn.Health(ctx)
	switch {
	case fault.CauseOf(err) == fault.TLSFailed:
		e.healthErr = err
		return passed("something answers at openbao.address, but not over TLS as configured")
	case err != nil:
		e.healthErr = err
		return failure(err)
	}
	e.health = &h
	switch {
	case !h.Told:
		return passed(fmt.Sprintf("something answers at openbao.address (HTTP %d), but does not tell OpenBao's state: perhaps a proxy stands before it", h.Status))
	case !h.Initialized:
		return failed(reasonNotInitialized, "the OpenBao at openbao.address is not initialised",
			"correct openbao.address, or initialise OpenBao; one that held the key must be restored from its storage or a backup, never initialised again")
	case h.Sealed:
		return failed(string(fault.ClassOpenBaoSealed), "OpenBao is sealed", "unseal it, or let openbao.address lead to an unsealed node")
	case h.Standby:
		return passed("a standby node answers, which forwards requests to the active one")
	}
	return finding{}
}

// checkTLS judges how the connection was secured.
func checkTLS(_ context.Context, e *exam) finding {
	switch {
	case e.way == nil:
		return noWay(e)
	case fault.CauseOf(e.healthErr) == fault.TLSFailed:
		return failure(e.healthErr)
	case e.health == nil && !answered(e.healthErr):
		return skippedFor(openbaoReachable)
	case e.health == nil || e.health.CertificateEnd.IsZero():
		return finding{}
	}
	return endings(e.health, e.now())
}

// endings judges how long the server's certificates go on. Where they are made for
// days and renewed each day, a fortnight would warn for ever: then the last third
// of the life counts.
func endings(h *openbao.Health, now time.Time) finding {
	reason, whose, next := reasonCertificateEnd, "OpenBao's certificate", "have OpenBao's certificate renewed before that, by an authority in "+fieldCA
	end, life := h.CertificateEnd, h.CertificateLife
	if !h.AuthorityEnd.IsZero() && h.AuthorityEnd.Before(end) {
		reason, whose, end, life = reasonAuthorityEnd, "the authority in "+fieldCA+" that OpenBao's certificate is from", h.AuthorityEnd, h.AuthorityLife
		next = "put the next authority beside it into " + fieldCA + " on every node, restart the providers one by one, and only then have OpenBao's certificate issued by the next one"
	}
	left := end.Sub(now)
	if left >= min(certificateWarning, life/3) {
		return passed("OpenBao's certificate is valid until " + moment(end))
	}
	return warning(reason, fmt.Sprintf("%s ends in %s, at %s: no provider can reach OpenBao then", whose, span(left), moment(end)), next)
}

// noWay is why the way to OpenBao could not even be opened.
func noWay(e *exam) finding {
	if file := fileError(e.wayErr); file != nil {
		return unusableFile(reasonCAFile, fieldCA, e.config.OpenBao.CACertFile, file)
	}
	message, next := split(e.wayErr.Error(), "correct the configuration")
	reason := reasonAddress
	if strings.HasPrefix(message, fieldCA) {
		reason = reasonCAFile
	}
	return failed(reason, message, next)
}

// checkClock holds this host's clock against OpenBao's, as its answer tells it.
func checkClock(_ context.Context, e *exam) finding {
	switch {
	case e.way == nil || fault.CauseOf(e.healthErr) == fault.TLSFailed:
		return skippedFor(openbaoTLS)
	case e.health == nil:
		return skippedFor(openbaoReachable)
	case e.health.Date.IsZero():
		return skipped("OpenBao's answer does not tell its time")
	}
	limit, name := skewLimit, "what logins bear"
	if e.config.Auth.Method == config.MethodJWT {
		limit, name = time.Duration(e.config.Auth.JWT.ClockSkewLeeway), "auth.jwt.clockSkewLeeway"
	}
	ahead, slack := skew(e.health.AskedAt, e.health.AnsweredAt, e.health.Date)
	way, off := "ahead of", ahead
	if ahead < 0 {
		way, off = "behind", -ahead
	}
	if off-slack <= min(limit, skewWarning) {
		return finding{}
	}
	message := fmt.Sprintf("this host's clock is about %s %s OpenBao's", span(off), way)
	const next = "compare both hosts' clocks with a trusted one and synchronise the wrong one (timedatectl, chronyc tracking)"
	if off-slack > limit {
		return failed(reasonClock, fmt.Sprintf("%s, more than %s (%s) allows", message, name, config.Duration(limit)), next)
	}
	return warning(reasonClock, message, next)
}

// skew is how far this host's clock is ahead of the server's, and how far that
// may be wrong: the server told whole seconds, cut, at some moment between the
// question and the answer.
func skew(asked, answered, date time.Time) (ahead, slack time.Duration) {
	// The wall clock: the monotonic one cannot be compared with another host's.
	asked, answered = asked.Round(0), answered.Round(0)
	const half = time.Second / 2
	trip := max(0, answered.Sub(asked))
	return asked.Add(trip / 2).Sub(date.Add(half)), half + trip/2
}

// answered reports whether there was an HTTP answer, and so a good connection.
func answered(err error) bool {
	f := faultOf(err)
	return f != nil && f.HTTPStatus != 0
}

// makeFile is what to do about a file that is not there, by the field that names
// it.
var makeFile = map[string]string{
	fieldCA:   "put the PEM of the authority that signed OpenBao's certificate there, or correct the field",
	fieldJWT:  "have the issuer write this node's JWT there, with mode 0640, or correct the field",
	fieldCert: "have the issuer write this node's client certificate there, as PEM, or correct the field",
	fieldKey:  "have the issuer write the key of this node's client certificate there, as PEM with mode 0640, or correct the field",
}

// unusableFile is a file that a field names and that was refused.
func unusableFile(reason, field, path string, err *securefile.Error) finding {
	problem, next := fileProblem(err)
	switch owner, foreign := foreignOwner(path); {
	case errors.Is(err, fs.ErrNotExist):
		next = makeFile[field]
	case foreign:
		problem = "belongs to " + owner + ", but its owner must be root or who reads it"
		next = runAsProvider + "; if you are, make root its owner"
	case denied(err):
		problem = "cannot be read by " + thisUser()
		next = runAsProvider + "; if you are, give the file and its directory the group of the provider's user, with modes 0640 and 0750"
	}
	return failed(reason, "the file in "+field+" "+problem, next)
}
