package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// maxTTL, ten years in seconds, keeps a nonsensical life from overflowing a
// time.Duration.
const maxTTL = 10 * 365 * 24 * 60 * 60

// Grant is what a successful login gives.
type Grant struct {
	// Token is the client token.
	Token openbao.Secret
	// TTL is the token's life from the moment of the answer; always positive.
	TTL time.Duration
	// Renewable says whether OpenBao would prolong the token; never of a batch
	// token.
	Renewable bool
	// NumUses is how many requests the token may be used for; 0 without a limit.
	NumUses int
}

// Login is one way to get a token and to prolong it. *JWT and *Cert are the ones
// that there are.
type Login interface {
	// Method is "jwt" or "cert".
	Method() string
	// Login makes one login with the credential as it is now. It ends with ctx.
	// Failures are *fault.Error; fault.LoginRejected if the credential is
	// unusable or OpenBao refused it.
	Login(ctx context.Context) (Grant, error)
	// Renew asks OpenBao to prolong a token that this method got: to live for
	// increment from now on, or as long as it may. It ends with ctx. Failures are
	// *fault.Error.
	Renew(ctx context.Context, token openbao.Secret, increment time.Duration) (Grant, error)
}

// grantOf checks the answer of a login or a renewal.
func grantOf(op openbao.Operation, answer *api.Secret) (Grant, error) {
	switch {
	case answer == nil || answer.Auth == nil || answer.Auth.ClientToken == "":
		return Grant{}, fault.New(fault.Unavailable, op.Words(), "the answer holds no token: check what answers at openbao.address")
	case !isPrintable(answer.Auth.ClientToken):
		return Grant{}, fault.New(fault.Unavailable, op.Words(), "the token in the answer cannot be sent in a header: check what answers at openbao.address")
	case answer.Auth.LeaseDuration <= 0:
		return Grant{}, fault.New(fault.Unavailable, op.Words(), "the token in the answer has no end: give the role a token_ttl")
	}
	return Grant{
		Token:     openbao.NewSecret(answer.Auth.ClientToken),
		TTL:       time.Duration(min(answer.Auth.LeaseDuration, maxTTL)) * time.Second,
		Renewable: answer.Auth.Renewable && !isBatch(answer.Auth.ClientToken),
	}, nil
}

// noting returns a client that also tells how often the token of a login's answer
// may be used, which the library leaves out of what it reads.
func noting(client *api.Client, uses *int) *api.Client {
	return client.WithResponseCallbacks(func(r *api.Response) {
		content, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(content))
		var answer struct {
			Auth struct {
				NumUses int `json:"num_uses"`
			} `json:"auth"`
		}
		if err == nil && json.Unmarshal(content, &answer) == nil {
			*uses = max(0, answer.Auth.NumUses)
		}
	})
}

// isBatch reports whether a token is a batch token, whatever the answer says of
// its renewal: OpenBao keeps nothing of them that it could prolong.
func isBatch(token string) bool {
	return strings.HasPrefix(token, "b.") || strings.HasPrefix(token, "hvb.")
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] <= 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
