package auth

import (
	"log/slog"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// reportLogin tells log and observer of a login (design: observability).
func (s *Session) reportLogin(err error, recovery bool, took time.Duration) {
	operation := s.login.Method() + "_login"
	status := s.event("auth.login", operation, err, took)
	if recovery {
		s.event("auth.recovery", operation, err, took)
	}
	if s.observer == nil {
		return
	}
	s.observer.LoginDone(status)
	if recovery {
		s.observer.RecoveryDone(status)
	}
}

func (s *Session) reportRenewal(err error, took time.Duration) {
	status := s.event("auth.renewal", string(openbao.TokenRenewSelf), err, took)
	if s.observer != nil {
		s.observer.RenewalDone(status)
	}
}

// event writes one line and returns the status in it.
func (s *Session) event(name, operation string, err error, took time.Duration) string {
	status, level := openbao.StatusOK, slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("operation", operation),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	if err != nil {
		status, level = string(fault.ClassOf(err)), slog.LevelWarn
		attrs = append(attrs, slog.String("error_class", status), slog.String("error", err.Error()))
	}
	attrs = append(attrs, slog.String("status", status))
	s.log.LogAttrs(s.life, level, name, attrs...)
	return status
}
