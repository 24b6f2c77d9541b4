package report

// RetirementPlan is what retire-versions prints and would do on the node: it
// depends on the registry and not on the time of applying it (design:
// config-and-cli, retire-versions and restore-versions).
type RetirementPlan struct {
	// APIVersion is report.baokms/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is RetirementPlan.
	Kind string `json:"kind"`
	// BeforeVersion is the lowest version that stays, at least 2.
	BeforeVersion int `json:"beforeVersion"`
	// RemovedVersions are the Transit versions that would be removed, ascending.
	// Empty when nothing below BeforeVersion is retained, never null: then the
	// next generation and hash are the present ones.
	//
	// +listType=atomic
	RemovedVersions []int `json:"removedVersions"`
	// ActiveKeyIDHash is h(key_id) of the key that encrypts.
	ActiveKeyIDHash string `json:"activeKeyIdHash"`
	// StateHash is that of the registry that the plan was made from, and what
	// --expected-state-hash wants.
	StateHash string `json:"stateHash"`
	// NextGeneration is the registry's generation after applying it.
	NextGeneration uint64 `json:"nextGeneration"`
	// NextStateHash is the registry's state hash after applying it.
	NextStateHash string `json:"nextStateHash"`
}

// Problem is an answer that is not what was asked for.
type Problem struct {
	// APIVersion is report.baokms/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is Problem.
	Kind string `json:"kind"`
	// Reason is a stable code: of a guard, of design/observability, or one of
	// those below.
	Reason string `json:"reason"`
	// Message says what is wrong.
	Message string `json:"message"`
	// NextStep says what to do about it.
	NextStep string `json:"nextStep"`
}

// Reasons of problems that concern the request.
const (
	ReasonBadQuery = "bad_query" // HTTP 400
	ReasonNotFound = "not_found" // HTTP 404
)
