package auth

import (
	"context"
	"slices"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// Capabilities asks what a token may do on each of the paths: a sorted list for
// every one, such as "read" and "update", or "deny", or "root". Failures are
// *fault.Error and name no path.
func Capabilities(ctx context.Context, conn *openbao.Conn, token openbao.Secret, paths []string) (map[string][]string, error) {
	answer, err := conn.Use(ctx, openbao.CapabilitiesSelf, func(ctx context.Context, c *api.Client) (*api.Secret, error) {
		c.SetToken(token.Reveal())
		return c.Logical().WriteWithContext(ctx, "sys/capabilities-self", map[string]any{"paths": paths})
	})
	if err != nil {
		return nil, err
	}
	unclear := fault.New(fault.AnswerInvalid, openbao.CapabilitiesSelf.Words(), "the answer does not tell every path's capabilities: check what answers at openbao.address")
	if answer == nil {
		return nil, unclear
	}
	found := make(map[string][]string, len(paths))
	for _, p := range paths {
		list, ok := answer.Data[p].([]any)
		if !ok {
			return nil, unclear
		}
		for _, v := range list {
			word, ok := v.(string)
			if !ok {
				return nil, unclear
			}
			found[p] = append(found[p], word)
		}
		slices.Sort(found[p])
	}
	return found, nil
}
