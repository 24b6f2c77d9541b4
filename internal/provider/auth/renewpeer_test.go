package auth

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// Each method's renewal over TLS, by what OpenBao answers.
func TestRenewalAnswers(t *testing.T) {
	const token = "hvs.canary-held"
	for name, c := range map[string]struct {
		status    int
		body      string
		ttl       time.Duration
		renewable bool
		cause     fault.Cause // None for a grant
		want      string
		refused   bool
	}{
		"in full":          {200, `{"auth":{"client_token":"` + token + `","lease_duration":3600,"renewable":true}}`, time.Hour, true, fault.None, "", false},
		"less":             {200, `{"auth":{"client_token":"` + token + `","lease_duration":7,"renewable":true}}`, 7 * time.Second, true, fault.None, "", false},
		"not renewable":    {200, `{"auth":{"client_token":"` + token + `","lease_duration":60,"renewable":false}}`, time.Minute, false, fault.None, "", false},
		"batch":            {200, `{"auth":{"client_token":"hvb.canary","lease_duration":60,"renewable":true}}`, time.Minute, false, fault.None, "", false},
		"old batch":        {200, `{"auth":{"client_token":"b.canary","lease_duration":60,"renewable":true}}`, time.Minute, false, fault.None, "", false},
		"with warnings":    {200, `{"warnings":["canary: TTL capped"],"auth":{"client_token":"` + token + `","lease_duration":60,"renewable":true}}`, time.Minute, true, fault.None, "", false},
		"nothing":          {200, `{}`, 0, false, fault.Unavailable, "holds no token", false},
		"no body":          {204, ``, 0, false, fault.Unavailable, "renew the OpenBao token", false},
		"no end":           {200, `{"auth":{"client_token":"canary","lease_duration":0}}`, 0, false, fault.Unavailable, "token_ttl", false},
		"unsendable token": {200, `{"auth":{"client_token":"canary\u0000","lease_duration":60}}`, 0, false, fault.Unavailable, "cannot be sent", false},
		"not JSON":         {200, `<html>canary`, 0, false, fault.Unavailable, "check what answers", false},
		"cut":              {200, `{"auth":{"client_token":"canary`, 0, false, fault.Unavailable, "check what answers", false},
		"gone":             {403, `{"errors":["permission denied"]}`, 0, false, fault.Unauthenticated, "the policy `default`", true},
		"not allowed":      {403, `{"errors":["1 error occurred:\n\t* permission denied\n\n"]}`, 0, false, fault.Unauthenticated, "the token is gone", true},
		"unauthorized":     {401, `{}`, 0, false, fault.Unauthenticated, "a login replaces it", true},
		"batch, refused":   {400, `{"errors":["batch tokens cannot be renewed canary"]}`, 0, false, fault.RequestRefused, "audit log", true},
		"no such path":     {404, `{"errors":["no handler for route canary"]}`, 0, false, fault.RequestRefused, "audit log", true},
		"rate limit":       {429, `{"errors":["canary"]}`, 0, false, fault.RateLimited, "quota", false},
		"broken":           {500, `{"errors":["canary"]}`, 0, false, fault.Unavailable, "OpenBao's log", false},
		"bad gateway":      {502, `canary`, 0, false, fault.Unavailable, "HTTP 502", false},
		"sealed":           {503, `{"errors":["Vault is sealed"]}`, 0, false, fault.Sealed, "unseal", false},
		"redirect":         {307, ``, 0, false, fault.Unavailable, "redirect", false},
		"too large":        {200, strings.Repeat("canary ", 100_000), 0, false, fault.Unavailable, "larger than", false},
	} {
		for _, method := range []string{"jwt", "cert"} {
			t.Run(method+"/"+name, func(t *testing.T) {
				ca := newAuthority(t)
				b, conn := startBao(t, ca, nil, func(request) (int, string) { return c.status, c.body })
				m := newMaterial(t)
				presented := ""
				var login Login = NewJWT(conn, JWTOptions{File: filepath.Join(t.TempDir(), "no JWT is needed")})
				if method == "cert" {
					m.issue(t, ca, nil)
					login, presented = NewCert(conn, m.options()), "2"
				}
				grant, err := login.Renew(t.Context(), openbao.NewSecret(token), time.Hour)
				if c.cause == fault.None {
					if err != nil || grant.TTL != c.ttl || grant.Renewable != c.renewable {
						t.Errorf("granted %v, renewable %v, %v", grant.TTL, grant.Renewable, err)
					}
				} else {
					assertFault(t, err, c.cause, c.want)
				}
				if refused(err) != c.refused {
					t.Errorf("%v counts as refused: %v", err, refused(err))
				}
				seen := b.requests()
				if len(seen) != 1 || seen[0].token != token || seen[0].presented != presented ||
					seen[0].path != "/v1/auth/token/renew-self" || seen[0].body["increment"] != 3600.0 {
					t.Errorf("OpenBao saw %v", seen)
				}
			})
		}
	}
}

// Each failure that this package words itself says which layer, field or file
// it is about and what to do.
func TestErrorTexts(t *testing.T) {
	places := []string{
		"auth.", "openbao.", "OpenBao's", "the role", "role's", "the login JWT", "shutting down", "this host's clock",
	}
	steps := []string{
		"check ", "correct ", "replace", "give ", "put ", "write ", "set ", "see ", "leave ", "issue ", "have it ", "report this",
		"create ", "run chmod", "shutting down",
	}
	s := NewSession(Options{Login: &script{}})
	s.Close()
	list := []error{
		errDelayed(), errClosed(),
		renewalRefused(status(403)), renewalRefused(status(401)), renewalRefused(status(400)),
		ownError(context.DeadlineExceeded, opLogin, "auth.loginTimeout", time.Second),
		ownError(context.DeadlineExceeded, opRenew, "openbao.timeout", time.Second),
	}
	open := NewSession(Options{Login: &script{}})
	defer open.Close()
	list = append(list, open.renewalError(fault.Wrap(fault.Canceled, "", context.DeadlineExceeded), true), open.loginError(context.Canceled))
	_, panicked := guarded(opLogin, func() (Grant, error) { panic("canary") })
	list = append(list, panicked)
	conn := server(t, func(http.ResponseWriter, *http.Request) {})
	m := newMaterial(t)
	_, err := NewCert(conn, m.options()).Login(t.Context())
	list = append(list, err)
	m.issue(t, newAuthority(t), nil)
	_, err = NewCert(conn, m.options()).Login(t.Context())
	list = append(list, err)
	for _, err := range list {
		text := err.Error()
		assertClean(t, text)
		if !contains(text, places) || !contains(text, steps) {
			t.Errorf("%q names no layer, field or file, or no next step", text)
		}
		var f *fault.Error
		if !errors.As(err, &f) || f.Op == "" || f.Detail == "" {
			t.Errorf("%q does not say what was being done, and what more is known", text)
		}
	}
}

func contains(text string, fragments []string) bool {
	for _, f := range fragments {
		if strings.Contains(text, f) {
			return true
		}
	}
	return false
}
