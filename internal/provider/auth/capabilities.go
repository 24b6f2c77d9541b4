package auth

import (
	"context"
	"slices"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// Capabilities asks what a token may do on each of the paths, which are relative
// to the namespace and have no slash at the front: for every one a sorted list
// without repetitions, never empty, such as "read" and "update", or "deny", or
// "root" for a token that may do everything. Without paths it asks nothing and
// answers an empty map.
//
// The request ends with ctx, or after the connection's Timeout if ctx has no
// deadline. Failures are *fault.Error and name no path.
func Capabilities(ctx context.Context, conn *openbao.Conn, token openbao.Secret, paths []string) (map[string][]string, error) {
	found := make(map[string][]string, len(paths))
	if len(paths) == 0 {
		return found, nil
	}
	answer, err := conn.Use(ctx, openbao.CapabilitiesSelf, func(ctx context.Context, c *api.Client) (*api.Secret, error) {
		c.SetToken(token.Reveal())
		return c.Logical().WriteWithContext(ctx, "sys/capabilities-self", map[string]any{"paths": paths})
	})
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		if found[p] = capabilitiesOf(answer, p); found[p] == nil {
			return nil, fault.New(fault.AnswerInvalid, openbao.CapabilitiesSelf.Words(),
				"the answer does not tell what the token may do on every path: check what answers at openbao.address")
		}
	}
	return found, nil
}

// capabilitiesOf is nil where the answer does not tell.
func capabilitiesOf(answer *api.Secret, path string) (words []string) {
	if answer == nil {
		return nil
	}
	list, ok := answer.Data[path].([]any)
	if !ok {
		return nil
	}
	for _, v := range list {
		word, ok := v.(string)
		if !ok || word == "" {
			return nil
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return slices.Compact(words)
}
