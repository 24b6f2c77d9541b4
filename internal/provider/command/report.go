package command

import "time"

// APIVersion is that of every JSON report of the provider's commands.
const APIVersion = "provider.kms.baokms.io/v1alpha1"

// The kinds of report.
const (
	KindDoctor          = "DoctorReport"
	KindKey             = "KeyVerification"
	KindRotationPlan    = "RotationPlan"
	KindRotation        = "RotationVerification"
	KindRetirementPlan  = "RetirementPlan"
	KindRetirement      = "Retirement" // an applied plan
	KindRestorationPlan = "RestorationPlan"
	KindRestoration     = "Restoration"
	KindInit            = "InitReport"
	KindBenchmark       = "BenchmarkReport"
)

// Report is the answer of one command. Sections that the command has nothing to
// say in are nil.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// GeneratedAt is when what the report rests on had been looked at. Plans have
	// none: what is reviewed must not depend on when it was printed.
	GeneratedAt Time `json:"generatedAt,omitempty"`
	// Result is the worst of the checks; Seal sets it.
	Result Result `json:"result"`
	// Provider says which configuration the report is about, nil when that could
	// not be read.
	Provider *Provider `json:"provider,omitempty"`
	Checks   []Check   `json:"checks,omitempty"`
	Registry *Registry `json:"registry,omitempty"`
	Transit  *Transit  `json:"transit,omitempty"`
	Rotation *Rotation `json:"rotation,omitempty"`
	// Change is a retirement or restoration, planned or applied. Its fields are the
	// document's own in JSON, as those of the node report's plan are.
	*Change
	Files     []File     `json:"files,omitempty"`
	Benchmark *Benchmark `json:"benchmark,omitempty"`
	// Confidence is "limited" where the report could be taken for more than one
	// node can know; CannotKnow are then the sentences that say what.
	Confidence string   `json:"confidence,omitempty"`
	CannotKnow []string `json:"cannotKnow,omitempty"`
	// Next is what to do now, in this order, each a line of text.
	Next []Step `json:"next,omitempty"`
}

// Seal sets the head and the result, and returns r.
func (r *Report) Seal(kind string) *Report {
	r.APIVersion, r.Kind, r.Result = APIVersion, kind, Worst(r.Checks)
	return r
}

// Time is a moment in RFC 3339, UTC, whole seconds; "" when there is none.
type Time string

// At is a moment as reports tell it; "" for the zero time.
func At(t time.Time) Time {
	if t.IsZero() {
		return ""
	}
	return Time(t.UTC().Format(time.RFC3339))
}

// Provider says whose report it is.
type Provider struct {
	// Name is transit.keyIdScope.providerName, Version the binary's.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Fingerprint is the configuration's, the same on all nodes of a cluster.
	Fingerprint string `json:"fingerprint"`
}

// Registry is what this node's files hold.
type Registry struct {
	Generation uint64 `json:"generation"`
	// StateHash is "sha256:" and 64 hex digits.
	StateHash string `json:"stateHash"`
	// ComparedWithTransit is false when OpenBao's metadata could not be read: the
	// section then tells local state only.
	ComparedWithTransit bool `json:"comparedWithTransit"`
	// Snapshots are all versions that the node knows, ascending. Never null.
	Snapshots []Snapshot `json:"snapshots"`
}

// Snapshot is one Transit version, as the node and OpenBao know it.
type Snapshot struct {
	TransitVersion int `json:"transitVersion"`
	// KeyIDHash is h(key_id): 43 characters of base64url.
	KeyIDHash string `json:"keyIdHash"`
	// State is active, pending, retired, removed or rejected.
	State string `json:"state"`
	// InTransit is what OpenBao says of the version: "agrees", "differs" (another
	// creation time), "missing", "blocked" (a minimum forbids decryption); empty
	// when not compared.
	InTransit string `json:"inTransit,omitempty"`
}

// What OpenBao says of a version.
const (
	Agrees  = "agrees"
	Differs = "differs"
	Missing = "missing"
	Blocked = "blocked"
)

// Transit is what OpenBao says of the key.
type Transit struct {
	Type          string `json:"type"`
	LatestVersion int    `json:"latestVersion"`
	// A minimum of 0 or 1 sets no limit.
	MinDecryptionVersion int `json:"minDecryptionVersion"`
	MinEncryptionVersion int `json:"minEncryptionVersion"`
	MinAvailableVersion  int `json:"minAvailableVersion"`
	// UpsertDisabled is the mount's disable_upsert, null when it was not read.
	UpsertDisabled *bool `json:"upsertDisabled"`
	// AutoRotateSeconds is auto_rotate_period, 0 for never.
	AutoRotateSeconds int64 `json:"autoRotateSeconds"`
	// Versions are those that OpenBao lists, ascending. Never null.
	Versions []TransitVersion `json:"versions"`
}

// TransitVersion is a version that OpenBao lists.
type TransitVersion struct {
	Version   int  `json:"version"`
	CreatedAt Time `json:"createdAt"`
	// Known is set when the node's registry has the version.
	Known bool `json:"known"`
}

// Rotation is where the node stands and what will happen next.
type Rotation struct {
	// State is active (nothing waits), pending, or unknown (no registry, or not
	// compared).
	State           string `json:"state"`
	ActiveVersion   int    `json:"activeVersion,omitempty"`
	ActiveKeyIDHash string `json:"activeKeyIdHash,omitempty"`
	// Pending is the version that waits for its promotion.
	Pending *Pending `json:"pending,omitempty"`
	// Ahead are the events that follow if nothing changes in OpenBao, in order.
	Ahead []Event `json:"ahead,omitempty"`
}

// Pending is a version that waits for its promotion.
type Pending struct {
	TransitVersion int    `json:"transitVersion"`
	KeyIDHash      string `json:"keyIdHash"`
	// Observations are the durable ones, of Required.
	Observations int `json:"observations"`
	Required     int `json:"required"`
	// Stable is set when as many are durable.
	Stable bool `json:"stable"`
	// EstimatedPromotion is what the running provider says of its own countdown;
	// absent without one.
	EstimatedPromotion Time `json:"estimatedPromotion,omitempty"`
}

// Event is something that will happen.
type Event struct {
	// What is a line of text.
	What string `json:"what"`
	// When says from which moment on, as a line of text: "at the next metadata
	// probe, within 30s"; empty where it depends on a person.
	When string `json:"when,omitempty"`
}

// Change is a retirement or a restoration. Planned and applied have the same
// shape: what is applied must be what was reviewed.
type Change struct {
	// Applied is set when it was made durable.
	Applied bool `json:"applied"`
	// BeforeVersion is a retirement's bound.
	BeforeVersion int `json:"beforeVersion,omitempty"`
	// RemovedVersions are a retirement's, RestoredVersions a restoration's,
	// ascending; the other one is null.
	RemovedVersions  []int `json:"removedVersions,omitzero"`
	RestoredVersions []int `json:"restoredVersions,omitzero"`
	// ActiveKeyIDHash is h(key_id) of the key that encrypts, before and after.
	ActiveKeyIDHash string `json:"activeKeyIdHash"`
	// StateHash is the registry's before, NextStateHash after; with nothing to
	// change they are the same, and so is the generation.
	StateHash      string `json:"stateHash"`
	NextGeneration uint64 `json:"nextGeneration"`
	NextStateHash  string `json:"nextStateHash"`
	// Recovery is set when OpenBao's minimum already forbids all that would go.
	Recovery bool `json:"recovery,omitempty"`
}

// File is a file that init wrote.
type File struct {
	// Name is relative to the directory that was asked for.
	Name string `json:"name"`
	// Mode is octal: "0640".
	Mode string `json:"mode"`
	// Target is where the file belongs on the node, empty for one that stays
	// elsewhere.
	Target string `json:"target,omitempty"`
	// Purpose is a few words.
	Purpose string `json:"purpose"`
}

// Step is one thing to do.
type Step struct {
	// Text is a sentence without its period.
	Text string `json:"text"`
	// Commands can be pasted into a shell, each a line.
	Commands []string `json:"commands,omitempty"`
}

// Benchmark is what was measured.
type Benchmark struct {
	// PayloadBytes is the plaintext's size, 0 when the rows have several; CPUs is
	// what the process may use.
	PayloadBytes int `json:"payloadBytes"`
	CPUs         int `json:"cpus"`
	// Rows are one for each operation, size and number of callers.
	Rows []BenchmarkRow `json:"rows"`
}

// BenchmarkRow sets one operation through the socket beside the bare Transit
// call.
type BenchmarkRow struct {
	// Operation is status, encrypt or decrypt.
	Operation string `json:"operation"`
	// PayloadBytes is the plaintext's size; none for status.
	PayloadBytes int      `json:"payloadBytes,omitempty"`
	Callers      int      `json:"callers"`
	Socket       Figures  `json:"socket"`
	Bare         *Figures `json:"bare,omitempty"` // none for status
	// Ratio is the socket's throughput divided by the bare one, 0 without one.
	Ratio float64 `json:"ratio,omitempty"`
}

// Figures are of one series of calls.
type Figures struct {
	Calls         int     `json:"calls"`
	CallsPerSec   float64 `json:"callsPerSecond"`
	P50Micros     int64   `json:"p50Micros"`
	P95Micros     int64   `json:"p95Micros"`
	P99Micros     int64   `json:"p99Micros"`
	SlowestMicros int64   `json:"slowestMicros"`
}
