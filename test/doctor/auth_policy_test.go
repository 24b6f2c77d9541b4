package doctor

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/stack"
)

// TestPolicyNarrowed takes one right after the other away. What needs it is not even tried.
func TestPolicyNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	rights := []struct {
		path, capability, purpose string
		skips                     []string
	}{
		{mount + "/keys/" + key, "read", "read the key's metadata", []string{"transit.key", "transit.profile", "transit.roundtrip"}},
		{mount + "/config/keys", "read", "read the mount's disable_upsert", []string{"transit.upsert", "transit.roundtrip"}},
		{mount + "/encrypt/" + key, "update", "encrypt with the key", []string{"transit.roundtrip"}},
		{mount + "/decrypt/" + key, "update", "decrypt with the key", []string{"transit.roundtrip"}},
	}
	for i, without := range rights {
		t.Run("without "+without.purpose, func(t *testing.T) {
			text := ""
			for j, r := range rights {
				if j != i {
					text += rule(r.path, r.capability)
				}
			}
			w.policy(t, text)
			r := examine(t, w)
			expect(t, r, "auth.policy", command.Fail, "policy_missing", "does not let the provider "+without.purpose, "bao-kms-provider policy openbao")
			onlyFails(t, r, "auth.policy")
			for _, id := range without.skips {
				skippedBecause(t, r, id, "auth.policy")
			}
		})
	}
	t.Run("another key's", func(t *testing.T) {
		w.policy(t, policy.OpenBao(mount, "another"))
		r := examine(t, w)
		expect(t, r, "auth.policy", command.Fail, "policy_missing", "decrypt with the key", "transit.keyName")
		onlyFails(t, r, "auth.policy")
	})
	t.Run("without any", func(t *testing.T) {
		w.policy(t, "")
		r := examine(t, w)
		expect(t, r, "auth.policy", command.Fail, "policy_missing",
			"read the key's metadata, read the mount's disable_upsert, encrypt with the key and decrypt with the key", "the policy that the role names in token_policies is missing or differs: read the role in OpenBao", "for transit.mountPath and transit.keyName as they are now")
		onlyFails(t, r, "auth.policy")
		skippedBecause(t, r, "transit.upsert", "auth.policy")
	})
	t.Run("without asking for capabilities", func(t *testing.T) {
		must(t, w.transit.UpdateRole(t.Context(), map[string]any{"token_no_default_policy": true}))
		text := ""
		for _, r := range rights {
			text += rule(r.path, r.capability)
		}
		w.policy(t, text)
		r := examine(t, w)
		expect(t, r, "auth.policy", command.Fail, "policy_missing", "ask for its own capabilities", "(HTTP 403)", "token_no_default_policy")
		onlyFails(t, r, "auth.policy")
		passes(t, r, "transit.key", "transit.upsert", "transit.roundtrip")

		w.policy(t, policy.OpenBao(mount, key))
		r = examine(t, w)
		onlyFails(t, r)
		passes(t, r, "auth.policy")
	})
}

// policy gives the logins another policy.
func (w *world) policy(t *testing.T, text string) {
	t.Helper()
	if text == "" {
		text = rule("nowhere", "deny")
	}
	must(t, w.transit.WritePolicy(t.Context(), stack.PolicyName, text))
}

func rule(path, capability string) string {
	return "path \"" + path + "\" {\n  capabilities = [\"" + capability + "\"]\n}\n"
}

// TestPolicySurplus adds one right after the other. The node works; what it need not be able to do is told.
func TestPolicySurplus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	for _, c := range []struct{ path, capability, word string }{
		{mount + "/keys/" + key + "/rotate", "update", "rotate the key"},
		{mount + "/keys/" + key + "/config", "update", "change the key's settings"},
		{mount + "/keys/" + key + "/trim", "update", "trim the key's versions"},
		{mount + "/keys/" + key + "/import", "update", "import a key"},
		{mount + "/keys/" + key + "/import_version", "update", "import a version of the key"},
		{mount + "/export/encryption-key/" + key, "read", "export the key"},
		{mount + "/export/+/" + key + "/*", "read", "export the key"},
		{mount + "/backup/" + key, "read", "back up the key"},
		{mount + "/restore", "update", "restore keys"},
		{mount + "/restore/*", "update", "restore keys"},
		{mount + "/rewrap/" + key, "update", "rewrap ciphertexts"},
		{mount + "/datakey/plaintext/" + key, "update", "make data keys"},
		{mount + "/encrypt/*", "update", "use other keys of the mount"},
		{mount + "/decrypt/" + key + "*", "update", "use other keys of the mount"},
		{mount + "/keys/*", "read", "read or change other keys of the mount"},
		{"sys/policies/acl/*", "update", "write policies"},
		{"sys/mounts/*", "delete", "remove or reconfigure the Transit mount"},
		{"auth/token/create", "update", "make tokens of its own"},
		{stack.JWTMount + "/role/" + stack.JWTRole, "update", "change its own login role"},
		{stack.JWTMount + "/config", "update", "change whose logins are accepted"},
		{"sys/seal", "sudo", "seal OpenBao"},
		{"sys/auth/*", "sudo", "change login methods"},
		{"sys/audit/*", "sudo", "change the audit log"},
		{"sys/remount", "sudo", "move mounts"},
	} {
		t.Run(c.word, func(t *testing.T) {
			w.policy(t, policy.OpenBao(mount, key)+rule(c.path, c.capability))
			r := examine(t, w)
			expect(t, r, "auth.policy", command.Warn, "policy_surplus", "the policy also lets the provider "+c.word, "bao-kms-provider policy openbao")
			onlyFails(t, r, "auth.policy")
			passes(t, r, "transit.key", "transit.upsert", "transit.roundtrip")
		})
	}
	for _, c := range []struct{ name, path, capabilities, word string }{
		{"to create the key", mount + "/keys/" + key, `read", "update`, "create the key"},
		{"to delete the key", mount + "/keys/" + key, `read", "delete`, "delete the key"},
		{"to switch upsert", mount + "/config/keys", `read", "update`, "let encrypting create keys"},
		{"to create by encrypting", mount + "/encrypt/" + key, `create", "update`, "create the key by encrypting"},
		{"to list", mount + "/decrypt/" + key, `update", "list`, "do more than to decrypt with the key in the same place"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A second rule for one path in one policy would replace the first: this one comes with a policy of its own.
			w.policy(t, policy.OpenBao(mount, key))
			must(t, w.transit.WritePolicy(t.Context(), "surplus", rule(c.path, c.capabilities)))
			must(t, w.transit.UpdateRole(t.Context(), map[string]any{"token_policies": []string{stack.PolicyName, "surplus"}}))
			defer func() {
				must(t, w.transit.UpdateRole(t.Context(), map[string]any{"token_policies": []string{stack.PolicyName}}))
			}()
			r := examine(t, w)
			expect(t, r, "auth.policy", command.Warn, "policy_surplus", "the policy also lets the provider "+c.word)
			onlyFails(t, r, "auth.policy")
		})
	}
	t.Run("everything of the mount", func(t *testing.T) {
		w.policy(t, rule(mount+"/*", `create", "read", "update", "delete", "list`))
		r := examine(t, w)
		expect(t, r, "auth.policy", command.Warn, "policy_surplus", "create the key, delete the key, rotate the key", "things more")
		onlyFails(t, r, "auth.policy")
	})
	t.Run("everything", func(t *testing.T) {
		w.policy(t, rule("*", `create", "read", "update", "delete", "list", "sudo`))
		r := examine(t, w)
		expect(t, r, "auth.policy", command.Warn, "policy_surplus", "rotate the key", "things more")
		onlyFails(t, r, "auth.policy")
	})
	t.Run("too much and too little", func(t *testing.T) {
		w.policy(t, rule(mount+"/keys/"+key, "read")+rule(mount+"/keys/"+key+"/rotate", "update")+rule(mount+"/config/keys", "read")+rule(mount+"/decrypt/"+key, "update"))
		r := examine(t, w)
		expect(t, r, "auth.policy", command.Fail, "policy_missing", "does not let the provider encrypt with the key; but it lets it rotate the key")
		onlyFails(t, r, "auth.policy")
	})
}

// TestPolicyRoot has the token be root, which OpenBao gives no login: its answer about the root token is what the node gets.
func TestPolicyRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	root := w.transit.Root()
	w.proxy.Handle("/sys/capabilities-self", 1, func(rw http.ResponseWriter, r *http.Request) {
		var question, answer map[string]any
		err := json.NewDecoder(r.Body).Decode(&question)
		if err == nil {
			err = root.Do(r.Context(), http.MethodPost, "sys/capabilities-self", question, &answer)
		}
		if err == nil {
			err = json.NewEncoder(rw).Encode(answer)
		}
		if err != nil {
			t.Error(err)
		}
	})
	r := examine(t, w)
	expect(t, r, "auth.policy", command.Warn, "policy_surplus", "root token", "and not the root policy")
	onlyFails(t, r, "auth.policy")
	passes(t, r, "transit.roundtrip")
}
