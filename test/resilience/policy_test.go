package resilience

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/stack"
)

// rules is a policy for some of what the provider does: "encrypt", "decrypt", "keys", "config".
func rules(what ...string) string {
	var text strings.Builder
	for _, name := range what {
		path, capability := fmt.Sprintf("%s/%s/%s", stack.DefaultMount, name, stack.DefaultKey), "update"
		switch name {
		case "keys":
			capability = "read"
		case "config":
			path, capability = stack.DefaultMount+"/config/keys", "read"
		}
		fmt.Fprintf(&text, "path %q {\n  capabilities = [%q]\n}\n", path, capability)
	}
	return text.String()
}

// denied is what the callers of a denied operation may see.
var denied = []codes.Code{codes.PermissionDenied, codes.Unauthenticated}

// TestPolicyNarrowed: what the policy denies is answered without a storm of logins, and what it allows goes on as if nothing had happened.
func TestPolicyNarrowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		policy string
		fails  []fails
		// denied are the methods that must be seen to be denied.
		denied []method
	}{
		{"encrypt denied", rules("decrypt", "keys", "config"), []fails{may(encrypt, denied...)}, []method{encrypt}},
		{"decrypt denied", rules("encrypt", "keys", "config"), []fails{may(decrypt, denied...)}, []method{decrypt}},
		{"both denied", rules("keys", "config"), []fails{may(encrypt, denied...), may(decrypt, denied...)}, []method{encrypt, decrypt}},
		{
			"metadata denied", rules("encrypt", "decrypt"),
			// Status is unhealthy without metadata, and Encrypt refuses then. Decrypt goes on.
			[]fails{may(encrypt, codes.FailedPrecondition)}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options{calm: true})
			narrowed := w.phase("narrowed", c.fails...)
			w.must(w.transit.WritePolicy(t.Context(), stack.PolicyName, c.policy))
			if c.denied != nil {
				// A recovery that did not help says so to those who tried again with its token: of which method is chance.
				w.seenOf(narrowed.began, c.denied, codes.PermissionDenied)
			}
			for _, m := range c.denied {
				w.seen(narrowed.began, m, codes.Unauthenticated)
			}
			w.last(8 * time.Second)
			s, starts := w.since(narrowed), recoveries(time.Since(narrowed.began))
			w.atMost("logins while narrowed", s.logins, starts)
			// Each recovery lets every caller that was rejected try twice: before it and after it. So may a probe.
			for _, m := range c.denied {
				asked := map[method]int{encrypt: s.encrypts, decrypt: s.decrypts}[m]
				w.atMost(string(m)+"s that reached the server while denied", asked, starts*2*(callers+2))
			}

			widened := w.phase("widened", c.fails...)
			w.must(w.transit.WritePolicy(t.Context(), stack.PolicyName, policy.OpenBao(stack.DefaultMount, stack.DefaultKey)))
			w.healed(widened.began, untilRecovery(widened.began.Sub(narrowed.began))+3*time.Second)
			w.atMost("logins in all", w.since(narrowed).logins, recoveries(time.Since(narrowed.began)))
			w.finish()
		})
	}
}
