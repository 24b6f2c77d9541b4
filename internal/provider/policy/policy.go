// Package policy writes the least-privilege policy that the provider's login
// needs in OpenBao (design: openbao, least-privilege policy).
//
// It only makes text. It never talks to OpenBao: an operator reviews the text
// and writes it there. The commands, the tests and the demo call it, so that
// all of them run with exactly what is printed.
package policy

import (
	"fmt"
	"strings"
)

// rule is one path and the only capability on it.
type rule struct {
	path, capability, why string
}

// OpenBao returns the policy, in HCL, for the Transit engine at mountPath and
// the key keyName. Both must be as configuration validation accepts them:
// without slashes at the ends, and of characters that mean nothing in HCL or
// in a policy path.
func OpenBao(mountPath, keyName string) string {
	rules := []rule{
		{mountPath + "/keys/" + keyName, "read", "Metadata of the key: its versions and profile."},
		{mountPath + "/config/keys", "read", "Proof that disable_upsert is set, so that a wrong name never makes a key."},
		{mountPath + "/encrypt/" + keyName, "update", "Wrap the API server's seeds."},
		{mountPath + "/decrypt/" + keyName, "update", "Unwrap them."},
		{"sys/capabilities-self", "update", "Let doctor compare this policy with what the token may do."},
	}
	var b strings.Builder
	b.WriteString("# Least privilege for bao-kms-provider: it can neither create, rotate,\n")
	b.WriteString("# configure nor delete a key. Login needs no policy.\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "\n# %s\npath %q {\n  capabilities = [%q]\n}\n", r.why, r.path, r.capability)
	}
	return b.String()
}
