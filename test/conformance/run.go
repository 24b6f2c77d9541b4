package conformance

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// capability is one that a Target may have.
type capability struct {
	name string
	has  func(Target) bool
}

var (
	contract     = &capability{"contract", func(t Target) bool { return t.Contract }}
	seen         = &capability{"seen", func(t Target) bool { return t.Seen != nil }}
	fresh        = &capability{"fresh", func(t Target) bool { return t.Fresh != nil }}
	peer         = &capability{"peer", func(t Target) bool { return t.Peer != nil }}
	rotate       = &capability{"rotate", func(t Target) bool { return t.Rotate != nil }}
	allowUpsert  = &capability{"allow upsert", func(t Target) bool { return t.AllowUpsert != nil }}
	revokeTokens = &capability{"revoke tokens", func(t Target) bool { return t.RevokeTokens != nil }}
	breaking     = &capability{"break", func(t Target) bool { return t.Break != nil }}
	hold         = &capability{"hold", func(t Target) bool { return t.Hold != nil }}
	answer       = &capability{"answer", func(t Target) bool { return t.Answer != nil }}
	metrics      = &capability{"metrics", func(t Target) bool { return t.Metrics != nil }}
	output       = &capability{"output", func(t Target) bool { return t.Output != nil }}
)

// testCase is one case of the suite. It gets a subject of its own on the target's socket.
type testCase struct {
	name  string
	run   func(t *testing.T, s *subject)
	needs []*capability
}

// missing names the capabilities that a target does not have.
func (c testCase) missing(target Target) (names []string) {
	for _, n := range c.needs {
		if !n.has(target) {
			names = append(names, n.name)
		}
	}
	return names
}

// cases are the suite, the black-box cases first.
var cases = []testCase{
	{"healthy Status names a key", healthyStatus, nil},
	{"Encrypt uses the key of Status within every limit", encryptWithinLimits, nil},
	{"Decrypt accepts what Encrypt gave", roundTrips, nil},
	{"many callers at once", concurrentRoundTrips, nil},
	{"oversized and empty fields are refused", refusedFields, nil},
	{"unknown and malformed key_ids are refused", refusedKeyIDs, nil},
	{"altered ciphertexts are refused", alteredCiphertexts, nil},
	{"unknown methods are refused", unknownMethod, nil},

	{"annotations are those of the wire contract", exactAnnotations, []*capability{contract}},
	{"sizes of a plaintext", plaintextSizes, []*capability{contract}},
	{"sizes of the fields of Decrypt", decryptFieldSizes, []*capability{contract}},
	{"sizes of a uid", uidSizes, []*capability{contract}},
	{"sizes of a message", messageSizes, []*capability{contract}},
	{"malformed messages", malformedMessages, []*capability{contract}},
	{"annotations that do not fit", refusedAnnotations, []*capability{contract}},
	{"ciphertexts of another version or form", ciphertextForms, []*capability{contract}},

	{"Status never reaches OpenBao", statusIsLocal, []*capability{seen}},
	{"an unknown key_id is looked up once", unknownKeyID, []*capability{contract, seen, fresh}},
	{"callers share one lookup", sharedLookup, []*capability{contract, seen, fresh, hold}},
	{"a peer's newer key decrypts and is not used", peersKey, []*capability{contract, fresh, peer, rotate}},
	{"another cluster's ciphertext is refused", anothersCiphertext, []*capability{contract, fresh, peer}},
	{"a rotation never goes back", rotations, []*capability{contract, fresh, rotate}},
	{"a promotion overtakes an Encrypt", overtakenEncrypt, []*capability{contract, fresh, rotate, hold}},
	{"stale probes", staleProbes, []*capability{contract, fresh, hold}},
	{"an unhealthy provider decrypts only", unhealthyProvider, []*capability{contract, fresh, allowUpsert}},
	{"a revoked token is replaced", revokedToken, []*capability{contract, seen, fresh, revokeTokens}},
	{"outages", outages, []*capability{contract, fresh, breaking}},
	{"a policy that was narrowed stops what it denies and nothing else", narrowedPolicy, []*capability{contract, seen, fresh, breaking}},
	{"wrong answers of OpenBao", wrongAnswers, []*capability{contract, answer}},
	{"caps on active calls", caps, []*capability{contract, fresh, hold}},
	{"the caller's deadline and cancellation", callerGone, []*capability{contract, fresh, hold, metrics}},
	{"a slow OpenBao", slowOpenBao, []*capability{contract, fresh, hold}},
	{"nothing secret comes out", nothingSecret, []*capability{contract, output}},
}

// Run holds a target against the suite: one subtest a case.
func Run(t *testing.T, target Target) {
	t.Helper()
	// Said once, and not by every case.
	if !filepath.IsAbs(target.Socket) {
		t.Fatalf("the socket %q: give its absolute path", target.Socket)
	}
	conn, err := net.Dial("unix", target.Socket)
	if err != nil {
		t.Fatalf("nothing serves the socket: %v", err)
	}
	_ = conn.Close()
	var left []string
	for _, c := range cases {
		if names := c.missing(target); len(names) > 0 {
			left = append(left, c.name+" (needs "+strings.Join(names, ", ")+")")
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, newSubject(t, target)) })
	}
	if len(left) > 0 {
		t.Logf("%d of %d cases are not part of this run, because the target lacks what they need:\n  %s",
			len(left), len(cases), strings.Join(left, "\n  "))
	}
}
