package transit

import (
	"context"
	"crypto/rand"
	"crypto/subtle"

	"github.com/baokms/baokms/internal/provider/fault"
)

// probeSize is the number of random bytes that a deep probe encrypts: as many
// as the seed that the API server has wrapped.
const probeSize = 32

// RoundTrip is the deep probe's work: it encrypts random bytes under the
// binding, with all checks of Encrypt, decrypts them and compares (design:
// openbao, metadata view and key profile). A difference is fault.AnswerInvalid.
func (c *Client) RoundTrip(ctx context.Context, k Binding) error {
	plaintext := make([]byte, probeSize)
	// rand.Read never fails.
	_, _ = rand.Read(plaintext)
	ciphertext, err := c.Encrypt(ctx, k, plaintext)
	if err != nil {
		return err
	}
	back, err := c.Decrypt(ctx, k, ciphertext)
	if err != nil {
		return err
	}
	defer clear(back)
	if subtle.ConstantTimeCompare(plaintext, back) != 1 {
		return fault.New(fault.AnswerInvalid, "probe the Transit key",
			"what was decrypted is not what was encrypted: check what answers at openbao.address")
	}
	return nil
}
