package diagnose

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/config"
)

// Reason codes of the policy.
const (
	reasonPolicyMissing = "policy_missing"
	reasonPolicySurplus = "policy_surplus"
)

// What the provider needs its policy for, in words. Paths are never told.
const (
	toReadMetadata  = "read the key's metadata"
	toReadUpsert    = "read the mount's disable_upsert"
	toEncrypt       = "encrypt with the key"
	toDecrypt       = "decrypt with the key"
	toAskCapability = "ask for its own capabilities"
)

// toldSurplus is how many surplus rights a message names.
const toldSurplus = 6

const usePolicy = "give the role the policy that `bao-kms-provider policy openbao` prints"

// right is a path of the least-privilege policy and the one capability that is
// needed on it (design: openbao, least-privilege policy).
type right struct{ path, capability, purpose string }

func rights(t config.Transit) []right {
	return []right{
		{t.MountPath + "/keys/" + t.KeyName, "read", toReadMetadata},
		{t.MountPath + "/config/keys", "read", toReadUpsert},
		{t.MountPath + "/encrypt/" + t.KeyName, "update", toEncrypt},
		{t.MountPath + "/decrypt/" + t.KeyName, "update", toDecrypt},
		{"sys/capabilities-self", "update", toAskCapability},
	}
}

// surplus is a path, capabilities that nobody needs there, and what any of them
// would allow.
type surplus struct {
	path         string
	capabilities []string
	allows       string
}

// stranger ends the name of a key that nobody has: who may use that one may use
// others than the configured.
const stranger = "-doctor-probe"

var (
	writing  = []string{"create", "update", "patch"}
	changing = []string{"create", "update", "patch", "delete"}
)

func surpluses(c *config.Config) []surplus {
	mount, key := c.Transit.MountPath, c.Transit.KeyName
	own := mount + "/keys/" + key
	all := []surplus{
		{own, writing, "create the key"},
		{own, []string{"delete"}, "delete the key"},
		{own + "/soft-delete", changing, "delete the key"},
		{own + "/rotate", writing, "rotate the key"},
		{own + "/config", writing, "change the key's settings"},
		{own + "/trim", writing, "trim the key's versions"},
		{own + "/import", writing, "import a key"},
		{own + "/import_version", writing, "import a version of the key"},
		{mount + "/encrypt/" + key, []string{"create"}, "create the key by encrypting"},
		{mount + "/config/keys", changing, "let encrypting create keys"},
		{mount + "/backup/" + key, []string{"read"}, "back up the key"},
		{mount + "/restore", writing, "restore keys"},
		{mount + "/restore/" + key, writing, "restore keys"},
		{mount + "/rewrap/" + key, writing, "rewrap ciphertexts"},
		{mount + "/datakey/plaintext/" + key, writing, "make data keys"},
		{mount + "/encrypt/" + key + stranger, writing, "use other keys of the mount"},
		{mount + "/decrypt/" + key + stranger, writing, "use other keys of the mount"},
		{mount + "/keys/" + key + stranger, append([]string{"read"}, changing...), "read or change other keys of the mount"},
	}
	for _, kind := range []string{"encryption-key", "signing-key", "hmac-key"} {
		all = append(all,
			surplus{mount + "/export/" + kind + "/" + key, []string{"read"}, "export the key"},
			surplus{mount + "/export/" + kind + "/" + key + "/latest", []string{"read"}, "export the key"})
	}
	return append(append(all, loginSurpluses(c.Auth)...),
		surplus{"sys/mounts/" + mount, changing, "remove or reconfigure the Transit mount"},
		surplus{"sys/policies/acl/kms" + stranger, changing, "write policies"},
		surplus{"auth/token/create", writing, "make tokens of its own"},
		// These ask for sudo as well: without it the others are no use.
		surplus{"sys/auth/kms" + stranger, []string{"sudo"}, "change login methods"},
		surplus{"sys/audit/kms" + stranger, []string{"sudo"}, "change the audit log"},
		surplus{"sys/remount", []string{"sudo"}, "move mounts"},
		surplus{"sys/seal", []string{"sudo"}, "seal OpenBao"},
	)
}

// loginSurpluses are those on the login method itself.
func loginSurpluses(a config.Auth) []surplus {
	mount, role := "", ""
	if a.Method == config.MethodCert {
		mount, role = a.Cert.MountPath, a.Cert.MountPath+"/certs/"+a.Cert.Name
		if a.Cert.Name == "" {
			role += "kms" + stranger
		}
	} else {
		mount, role = a.JWT.MountPath, a.JWT.MountPath+"/role/"+a.JWT.Role
	}
	return []surplus{
		{role, changing, "change its own login role"},
		{mount + "/config", changing, "change whose logins are accepted"},
	}
}

// checkPolicy holds what the token may do against the least-privilege policy:
// too little fails, too much warns.
func checkPolicy(ctx context.Context, e *exam) finding {
	needed, more := rights(e.config.Transit), surpluses(e.config)
	var paths []string
	for _, r := range needed {
		paths = append(paths, r.path)
	}
	for _, s := range more {
		if !slices.Contains(paths, s.path) {
			paths = append(paths, s.path)
		}
	}
	may, err := auth.Capabilities(ctx, e.way.Conn, e.token, paths)
	if f := faultOf(err); f != nil && f.HTTPStatus == http.StatusForbidden {
		return failed(reasonPolicyMissing, "the policy does not let the token "+toAskCapability+" (HTTP 403), so that nothing is known of the rest",
			usePolicy+", which has that right; a role without token_no_default_policy has it from OpenBao's default policy too")
	}
	if err != nil {
		return failure(err)
	}
	if slices.Contains(may[needed[0].path], "root") {
		return warning(reasonPolicySurplus, "the login gives a root token, which may do everything in OpenBao",
			usePolicy+", and not the root policy")
	}
	e.lacking = lacking(may, needed)
	return policyFinding(e.lacking, tooMuch(may, needed, more))
}

// lacking are the purposes that the capabilities do not allow.
func lacking(may map[string][]string, needed []right) []string {
	var purposes []string
	for _, r := range needed {
		if !slices.Contains(may[r.path], r.capability) {
			purposes = append(purposes, r.purpose)
		}
	}
	return purposes
}

// tooMuch is what the capabilities allow beyond the need, each once.
func tooMuch(may map[string][]string, needed []right, more []surplus) []string {
	var told []string
	add := func(what string) {
		if !slices.Contains(told, what) {
			told = append(told, what)
		}
	}
	explained := map[string][]string{}
	for _, s := range more {
		for _, c := range s.capabilities {
			if slices.Contains(may[s.path], c) {
				add(s.allows)
			}
		}
		explained[s.path] = append(explained[s.path], s.capabilities...)
	}
	for _, r := range needed {
		for _, c := range may[r.path] {
			if c != r.capability && c != "deny" && !slices.Contains(explained[r.path], c) {
				add("do more than to " + r.purpose + " in the same place")
			}
		}
	}
	return told
}

func policyFinding(missing, surplus []string) finding {
	if len(surplus) > toldSurplus {
		surplus = append(slices.Clone(surplus[:toldSurplus]), fmt.Sprintf("%d things more", len(surplus)-toldSurplus))
	}
	switch {
	case len(missing) > 0:
		message, next := "the policy does not let the provider "+inWords(missing), usePolicy
		if len(surplus) > 0 {
			message += "; but it lets it " + inWords(surplus)
		}
		if slices.Contains(missing, toReadMetadata) && slices.Contains(missing, toEncrypt) && slices.Contains(missing, toDecrypt) {
			next = "the policy that the role names in token_policies is missing or differs: read the role in OpenBao, then write that policy, in openbao.namespace, " +
				"with what `bao-kms-provider policy openbao` prints for transit.mountPath and transit.keyName as they are now"
		}
		return failed(reasonPolicyMissing, message, next)
	case len(surplus) > 0:
		return warning(reasonPolicySurplus, "the policy also lets the provider "+inWords(surplus), usePolicy+" and take others away")
	}
	return finding{}
}

// inWords joins words as a sentence does.
func inWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// lacks reports whether auth.policy has found that the token may not do that.
func (e *exam) lacks(purpose string) bool { return slices.Contains(e.lacking, purpose) }
