package auth

import (
	"context"
	"errors"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// useFunc makes one request with the OpenBao library's client: openbao.Conn's
// Use, or UseCertificate with a certificate.
type useFunc func(ctx context.Context, op openbao.Operation, fn func(context.Context, *api.Client) (*api.Secret, error)) (*api.Secret, error)

// renewSelf asks OpenBao to prolong token by increment.
func renewSelf(ctx context.Context, use useFunc, token openbao.Secret, increment time.Duration) (Grant, error) {
	seconds := int(min((increment+time.Second-1)/time.Second, maxTTL))
	answer, err := use(ctx, openbao.TokenRenewSelf, func(ctx context.Context, client *api.Client) (*api.Secret, error) {
		client.SetToken(token.Reveal())
		return client.Auth().Token().RenewSelfWithContext(ctx, seconds)
	})
	if err != nil {
		return Grant{}, renewalRefused(err)
	}
	return grantOf(openbao.TokenRenewSelf, answer)
}

// renewalRefused says more about a refusal than the status alone. A 403 does not
// tell a token that is gone from one that may not renew itself.
func renewalRefused(err error) error {
	var f *fault.Error
	if !refused(err) || !errors.As(err, &f) {
		return err
	}
	cause, detail := fault.RequestRefused, "see OpenBao's audit log; a login replaces the token"
	if f.HTTPStatus == 401 || f.HTTPStatus == 403 {
		cause, detail = fault.Unauthenticated, "the token is gone, or its policies do not let it renew itself: "+
			"a login replaces it; if this comes back, give the role of auth.method the policy `default`"
	}
	r := fault.New(cause, openbao.TokenRenewSelf.Words(), "%s", detail)
	r.HTTPStatus = f.HTTPStatus
	return r
}
