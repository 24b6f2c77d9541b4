package observe

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/baokms/baokms/internal/provider/identity"
)

// textKeys are the attributes whose text is printed, each with the form that its
// text must have. The list is the schema of the logs: text under any other key,
// and text of another form, is redacted, so that a new attribute is printed only
// after somebody decided, here, that it never holds a secret, an OpenBao path, a
// key name or a key_id (design: observability, logs). Empty text fits every form.
var textKeys = map[string]func(text string) bool{
	// What happened.
	"operation": oneOf(logOperations), "status": oneOf(logStatuses), "probe_kind": oneOf(probeKinds), "error_class": oneOf(classes),
	"state": isState, "phase": isState, "signal": isState, "method": isState,
	"reason": isProse, "error": isProse, "next_step": isProse,
	// Which key, as a hash.
	"key_id_hash": identity.IsHash, "previous_key_id_hash": identity.IsHash,
	"fingerprint": identity.IsFingerprint, "state_hash": hexHash.MatchString,
	// Debug correlation.
	"request_uid_hash": hexHash.MatchString, "openbao_request_id": requestID.MatchString,
	"incident_id": isIncident, "expires_at": isTime,
	// The process and this node: no path of OpenBao.
	"version": isProse, "commit": isProse, "build_date": isProse, "go_version": isProse,
	"address": isProse, "panic_at": isProse, "socket": isProse, "config_file": isProse, "state_file": isProse,
}

// What operation, status and probe_kind may say.
var (
	logOperations = union(setOf(operations...), setOf(methodNames[:]...))
	logStatuses   = union(setOf(ok, "failed"), classes, codeNames())
	probeKinds    = setOf("metadata", "deep", "discovery", "state")
)

// Forms of text. The ID of a request in OpenBao's audit log is a UUID; whatever
// else an answer claims to be one is not printed.
var (
	hexHash   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	requestID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	incident  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)
	state     = regexp.MustCompile(`^[A-Za-z][A-Za-z _-]{0,31}$`)
)

// credential finds in prose what only a credential, a ciphertext or a request to
// OpenBao looks like: tokens, JWTs, PEM, Transit's ciphertexts, paths below /v1.
// It is the second line of defence: whoever writes an error keeps them out.
//
// A JWT begins with a JSON object in base64. eyJ is {" and so plain that its head
// alone is enough; eyA, ewo, ew0 and ewk are a brace and white space, and words of
// prose have them too, so two dots must follow. A path of a file may hold /v1/
// within it: one of OpenBao begins with it, or with a host.
var credential = regexp.MustCompile(strings.Join([]string{
	`\b(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{20}`,
	`eyJ[A-Za-z0-9_-]{10}`,
	`e(?:yA|w[o0k])[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.`,
	`-----BEGIN`,
	`vault:v[0-9]`,
	`(?i:https?)://\S*/v1/`,
	`(?:^|[^\w.~%/-]|:[0-9]{1,5})/v1/`,
}, "|"))

// credentialSigns are in every text that credential finds: most texts have none,
// and looking for them is a hundred times cheaper.
var credentialSigns = []string{"s.", "b.", "r.", "eyJ", "eyA", "ewo", "ew0", "ewk", "-----BEGIN", "vault:v", "/v1/"}

func isProse(s string) bool {
	return !slices.ContainsFunc(credentialSigns, func(sign string) bool { return strings.Contains(s, sign) }) ||
		!credential.MatchString(s)
}

func isState(s string) bool    { return state.MatchString(s) }
func isIncident(s string) bool { return incident.MatchString(s) && isProse(s) }

func isTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func oneOf(set map[string]bool) func(string) bool { return func(s string) bool { return set[s] } }

func codeNames() map[string]bool {
	names := make(map[string]bool, codeCount)
	for code := range codeCount {
		names[codes.Code(code).String()] = true
	}
	return names
}

func union(sets ...map[string]bool) map[string]bool {
	all := map[string]bool{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}
