package transit_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/stack"
)

// rootToken is a further token that may do everything.
func rootToken(t *testing.T, server *stack.Transit) openbao.Secret {
	t.Helper()
	var answer struct {
		Auth struct {
			ClientToken string `json:"client_token"`
		} `json:"auth"`
	}
	if err := server.Root().Do(t.Context(), http.MethodPost, "auth/token/create", map[string]any{"policies": []string{"root"}, "ttl": "1h"}, &answer); err != nil {
		t.Fatal(err)
	}
	return openbao.NewSecret(answer.Auth.ClientToken)
}

// TestRealCapabilities asks the real server under the policy that we print, with
// more, with less, without the right to ask, and as root.
func TestRealCapabilities(t *testing.T) {
	r := start(t)
	ctx := t.Context()
	mount, key := r.server.Mount(), r.server.Key()
	paths := []string{mount + "/keys/" + key, mount + "/config/keys", mount + "/encrypt/" + key, mount + "/decrypt/" + key, "sys/capabilities-self", mount + "/keys/" + key + "/rotate"}
	all := func(words ...[]string) map[string][]string {
		want := map[string][]string{}
		for i, p := range paths {
			want[p] = words[min(i, len(words)-1)]
		}
		return want
	}
	least := policy.OpenBao(mount, key)
	session := func(ctx context.Context) (openbao.Secret, error) { return r.session.Token(ctx) }
	for _, c := range []struct {
		name, policy string
		token        func(context.Context) (openbao.Secret, error)
		want         map[string][]string
	}{
		{"least privilege", least, session,
			all([]string{"read"}, []string{"read"}, []string{"update"}, []string{"update"}, []string{"update"}, []string{"deny"})},
		{"surplus", least + "path \"" + mount + "/*\" {\n  capabilities = [\"create\", \"update\"]\n}\n" +
			"path \"" + mount + "/keys/" + key + "\" {\n  capabilities = [\"read\", \"delete\"]\n}\n", session,
			all([]string{"delete", "read"}, []string{"read"}, []string{"update"}, []string{"update"}, []string{"update"}, []string{"create", "update"})},
		// The server's own policy, default, lets every token ask.
		{"nothing", "path \"elsewhere\" {\n  capabilities = [\"read\"]\n}\n", session,
			all([]string{"deny"}, []string{"deny"}, []string{"deny"}, []string{"deny"}, []string{"update"}, []string{"deny"})},
		{"root", least, func(context.Context) (openbao.Secret, error) { return rootToken(t, r.server), nil },
			all([]string{"root"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := r.server.WritePolicy(ctx, stack.PolicyName, c.policy); err != nil {
				t.Fatal(err)
			}
			token, err := c.token(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got, err := auth.Capabilities(ctx, r.conn, token, paths)
			if err != nil || !maps.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("%v, %v\nwant %v", got, err, c.want)
			}
			// A single path is answered in another form.
			if got, err := auth.Capabilities(ctx, r.conn, token, paths[:1]); err != nil || len(got) != 1 || !slices.Equal(got[paths[0]], c.want[paths[0]]) {
				t.Errorf("one path: %v, %v", got, err)
			}
		})
	}

	// A token without the policy default may ask only where our policy says so.
	if err := r.server.UpdateRole(ctx, map[string]any{"token_no_default_policy": true}); err != nil {
		t.Fatal(err)
	}
	if err := r.server.WritePolicy(ctx, stack.PolicyName, "path \"elsewhere\" {\n  capabilities = [\"read\"]\n}\n"); err != nil {
		t.Fatal(err)
	}
	jwt, err := r.server.MintJWT(nil)
	if err != nil {
		t.Fatal(err)
	}
	login, err := r.server.LoginJWT(ctx, jwt)
	if err != nil {
		t.Fatal(err)
	}
	got, err := auth.Capabilities(ctx, r.conn, openbao.NewSecret(login.Token), paths)
	if fault.CauseOf(err) != fault.Unauthenticated || got != nil {
		t.Errorf("a token that may not ask: %v, %v", got, err)
	}
	if _, err := auth.Capabilities(ctx, r.conn, openbao.NewSecret("hvs.unknown"), paths); fault.CauseOf(err) != fault.Unauthenticated {
		t.Errorf("an unknown token: %v", err)
	}
}
