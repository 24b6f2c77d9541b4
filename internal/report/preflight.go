package report

import "slices"

// ConfidenceLimited is the only confidence that a preflight has: one node's
// memory cannot prove that a version is no longer needed.
const ConfidenceLimited = "limited"

// The ids of the checks. They mean what doctor's checks of the same name mean
// (design: config-and-cli, doctor's checks), judged from memory.
const (
	CheckTransitKey         = "transit.key"         // the key's metadata can be read
	CheckTransitUpsert      = "transit.upsert"      // the mount creates no key on encrypt
	CheckTransitProfile     = "transit.profile"     // the key has the required profile
	CheckTransitRoundTrip   = "transit.roundtrip"   // the active version encrypts and decrypts
	CheckRegistryState      = "registry.state"      // the state file holds the registry
	CheckRegistryCheckpoint = "registry.checkpoint" // and so does its checkpoint
	CheckRegistryMetadata   = "registry.metadata"   // OpenBao agrees with every retained version
	CheckKeyIDDeterministic = "keyid.deterministic" // every key_id derives from its fields
	CheckStatusConsistency  = "status.consistency"  // Status names the key that encrypts
)

// CheckIDs are the checks of every v1 preflight, in the order in which they are
// reported. The caller must not change the slice.
var CheckIDs = []string{
	CheckTransitKey, CheckTransitUpsert, CheckTransitProfile, CheckTransitRoundTrip,
	CheckRegistryState, CheckRegistryCheckpoint, CheckRegistryMetadata,
	CheckKeyIDDeterministic, CheckStatusConsistency,
}

// Result is how a check ended.
type Result string

// The results, from good to bad.
const (
	Pass    Result = "pass"
	Warn    Result = "warn"
	Unknown Result = "unknown" // it could not be judged; never to be read as a pass
	Fail    Result = "fail"
)

var worsening = []Result{Pass, Warn, Unknown, Fail}

// Basis is what a check's result rests on; Observations has the time of it.
type Basis string

// The bases.
const (
	BasisMetadata Basis = "metadata"  // the last metadata probe
	BasisDeep     Basis = "deepProbe" // the last deep probe
	BasisState    Basis = "state"     // the last save of or look at the files
	BasisMemory   Basis = "memory"    // computed when the report was made
)

// Preflight is what one node can say, from memory, before an operator goes on
// with a rotation: the checks of verify-rotation.
type Preflight struct {
	// Confidence is ConfidenceLimited.
	Confidence string `json:"confidence"`
	// Result is the worst of all checks.
	Result Result `json:"result"`
	// Checks are those of CheckIDs, in that order.
	//
	// +listType=atomic
	Checks []Check `json:"checks"`
	// CannotKnow are sentences: what no result here says anything about.
	//
	// +listType=atomic
	CannotKnow []string `json:"cannotKnow"`
}

// Check is one check. Reason, Message and NextStep are present exactly when it
// did not pass.
type Check struct {
	// ID is the check's, such as transit.key.
	ID string `json:"id"`
	// Result is pass, warn, unknown or fail; unknown is never to be read as a pass.
	Result Result `json:"result"`
	// Basis names the observation that the result rests on.
	Basis Basis `json:"basis"`
	// Reason is a stable code.
	Reason string `json:"reason,omitempty"`
	// Message says what was found.
	Message string `json:"message,omitempty"`
	// NextStep says what to do about it.
	NextStep string `json:"nextStep,omitempty"`
}

// Limits are the sentences of Preflight.CannotKnow (design: config-and-cli,
// verify-rotation). The caller must not change the slice.
var Limits = []string{
	"whether the other nodes use the same key: compare the active keyIdHash of every node",
	"whether an object in etcd is still encrypted with an older version: that needs evidence of a complete rewrite",
	"whether a backup still needs an older version: that needs the operators' own records",
	"whether every API server has taken over the active key: they poll Status about once a minute and keep the last good answer for about three",
	"what has changed in OpenBao or on this node's disk since the observations that this report names",
}

// Worst is the result of a preflight with these checks; Unknown without any.
func Worst(checks []Check) Result {
	if len(checks) == 0 {
		return Unknown
	}
	worst := Pass
	for _, c := range checks {
		if slices.Index(worsening, c.Result) > slices.Index(worsening, worst) {
			worst = c.Result
		}
	}
	return worst
}
