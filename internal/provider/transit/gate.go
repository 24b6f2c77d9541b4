package transit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// endpoint is one kind of request, and what OpenBao said about it under which
// token.
type endpoint struct {
	*openbao.Endpoint
	op openbao.Operation
	// rejections is nil as long as nothing was rejected. A request that OpenBao
	// rejected under one token is not sent again under it; other kinds of request
	// go on with that token (design: openbao, auth; overview, invariant 8).
	rejections atomic.Pointer[rejections]
}

// rememberedTokens is how many rejected tokens an endpoint knows. One would do,
// were it not for late answers under an earlier token, which must not make it
// forget the current one.
const rememberedTokens = 4

// rejections is what an endpoint knows of rejected tokens. It is immutable.
type rejections struct {
	tokens []openbao.Secret // the newest first
	// denied says that the policy is at fault and not the token: OpenBao denied
	// the request also under a fresh token, with 403, or said so itself.
	denied bool
}

// hold reports whether the token is known as rejected. A nil r knows none.
func (r *rejections) hold(token openbao.Secret) bool {
	return r != nil && slices.Contains(r.tokens, token)
}

// reject notes that OpenBao rejected the token, and with denied that its policy
// denies the request.
func (e *endpoint) reject(token openbao.Secret, denied bool) {
	for {
		old := e.rejections.Load()
		next := &rejections{tokens: []openbao.Secret{token}, denied: denied}
		if old != nil {
			next.denied = denied || old.denied
			for _, t := range old.tokens {
				if t != token && len(next.tokens) < rememberedTokens {
					next.tokens = append(next.tokens, t)
				}
			}
		}
		if e.rejections.CompareAndSwap(old, next) {
			return
		}
	}
}

// accept forgets what was known before a request that succeeded. What has been
// learned meanwhile is not forgotten: that request may be the older one.
func (e *endpoint) accept(known *rejections) {
	if known != nil {
		e.rejections.CompareAndSwap(known, nil)
	}
}

// call makes one request with the shared token. If OpenBao rejects the token, or
// is known to reject it, the request is made once under another: the only retry
// that there is (design: openbao, auth). body may be nil; it is called once for
// each request.
func (c *Client) call(ctx context.Context, e *endpoint, body func() *openbao.Buffer) (*openbao.Buffer, error) {
	token, err := c.tokens.Token(ctx)
	if err != nil {
		return nil, err
	}
	known := e.rejections.Load()
	if !known.hold(token) {
		answer, err := c.send(ctx, e, token, body)
		if err == nil {
			e.accept(known)
			return answer, nil
		}
		if fault.CauseOf(err) != fault.Unauthenticated {
			return nil, err
		}
		e.reject(token, errors.Is(err, openbao.ErrDenied))
	}
	return c.retry(ctx, e, token, body)
}

// retry makes the request under another token than the one rejected, if there
// may be one.
func (c *Client) retry(ctx context.Context, e *endpoint, rejected openbao.Secret, body func() *openbao.Buffer) (*openbao.Buffer, error) {
	token, err := c.tokens.Replace(ctx, rejected)
	if err != nil {
		return nil, e.delayed(err)
	}
	known := e.rejections.Load()
	if known.hold(token) { // somebody else's request under it was rejected meanwhile
		if known.denied {
			return nil, fault.New(fault.PolicyDenied, e.op.Words(), comparePolicy)
		}
		return nil, e.delayed(fault.New(fault.RecoveryDelayed, e.op.Words(),
			"OpenBao rejected the new token too: check that tokens are not being revoked and that the role's policy allows the request"))
	}
	answer, err := c.send(ctx, e, token, body)
	if err == nil {
		e.accept(known)
		return answer, nil
	}
	if fault.CauseOf(err) != fault.Unauthenticated {
		return nil, err
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.HTTPStatus != http.StatusForbidden {
		e.reject(token, false)
		return nil, err
	}
	e.reject(token, true)
	denied := fault.New(fault.PolicyDenied, f.Op, comparePolicy)
	denied.HTTPStatus = f.HTTPStatus
	return nil, denied
}

func (c *Client) send(ctx context.Context, e *endpoint, token openbao.Secret, body func() *openbao.Buffer) (*openbao.Buffer, error) {
	var b *openbao.Buffer
	if body != nil {
		b = body()
	}
	return c.conn.Call(ctx, e.Endpoint, token, b)
}

const comparePolicy = "compare the role's policy with the output of `bao-kms-provider policy openbao`"

// delayed is the answer to a request that is not sent, because no other token is
// to be had: where OpenBao's policy has denied it, that is what must be said.
func (e *endpoint) delayed(err error) error {
	known := e.rejections.Load()
	if fault.CauseOf(err) != fault.RecoveryDelayed || known == nil || !known.denied {
		return err
	}
	return fault.New(fault.DenialDelayed, e.op.Words(), comparePolicy)
}
