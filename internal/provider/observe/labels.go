package observe

import (
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/status"
)

// Label values that are no error class and no reason code.
const (
	ok      = "ok"
	unknown = string(fault.ClassUnknown)
)

// classes are the error classes (design: observability).
var classes = setOf(
	fault.ClassOpenBaoUnavailable, fault.ClassOpenBaoTLS, fault.ClassOpenBaoDNS, fault.ClassOpenBaoConnection,
	fault.ClassOpenBaoSealed, fault.ClassOpenBaoRateLimited, fault.ClassAuthFailed, fault.ClassKeyMissing,
	fault.ClassPolicyDenied, fault.ClassKeyIDUnknown, fault.ClassKeyIDMalformed, fault.ClassMetadataRefresh,
	fault.ClassAADMissing, fault.ClassAADMismatch, fault.ClassAnnotationInvalid, fault.ClassStatusStale,
	fault.ClassProtocolLimit, fault.ClassConcurrencyLimit, fault.ClassTimeout, fault.ClassCanceled,
	fault.ClassPanic, fault.ClassUnknown,
)

// reasons are the reason codes (design: observability).
var reasons = setOf(
	status.Starting, status.StateUnavailable, status.StatusStale, status.MetadataUnverified,
	status.MetadataReadFailed, status.UpsertCheckFailed, status.UpsertAllowed, status.ProfileInvalid,
	status.IdentityDrift, status.VersionRollback, status.VersionsBlocked, status.EncryptionBlocked,
	status.StateSaveFailed, status.StateConflict, status.DeepProbePending, status.DeepProbeFailed,
	status.DeepProbeInvalid, status.CircuitBreakerOpen, status.AuthFailed, status.ProbeFailed,
)

// authClasses are the error classes that a login, a renewal or a recovery can end
// with. Their series exist from the start: a counter that is born with its first
// failure hides that failure from increase() and rate().
var authClasses = []fault.Class{
	fault.ClassOpenBaoUnavailable, fault.ClassOpenBaoTLS, fault.ClassOpenBaoDNS, fault.ClassOpenBaoConnection,
	fault.ClassOpenBaoSealed, fault.ClassOpenBaoRateLimited, fault.ClassAuthFailed, fault.ClassPolicyDenied,
	fault.ClassTimeout, fault.ClassCanceled, fault.ClassPanic, fault.ClassUnknown,
}

// authMethods are the ways to log in (design: openbao, auth).
var authMethods = setOf("jwt", "cert")

func setOf[T ~string](values ...T) map[string]bool {
	set := make(map[string]bool, len(values))
	for _, v := range values {
		set[string(v)] = true
	}
	return set
}

// okOrClass and okOrReason keep a label's values within their closed list.
func okOrClass(s string) string  { return okOr(classes, s) }
func okOrReason(s string) string { return okOr(reasons, s) }

func okOr(set map[string]bool, s string) string {
	if s == ok || set[s] {
		return s
	}
	return unknown
}
