package report

// APIVersion is that of every document.
const APIVersion = "report.baokms/v1"

// The kinds of document.
const (
	KindNodeReport     = "NodeReport"
	KindRetirementPlan = "RetirementPlan"
	KindProblem        = "Problem"
)

// NodeReport is everything that a node tells about its key, at one moment and
// from memory: what it last knew for certain, and when it knew it.
type NodeReport struct {
	// APIVersion is report.baokms/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is NodeReport.
	Kind string `json:"kind"`
	// GeneratedAt is when the report was made.
	GeneratedAt Time `json:"generatedAt"`
	// Provider says who reports.
	Provider Provider `json:"provider"`
	// Readiness is what the API server is told.
	Readiness Readiness `json:"readiness"`
	// ActiveKey is the key that encrypts while the node is ready; absent without
	// a registry.
	ActiveKey *Key `json:"activeKey,omitempty"`
	// Rotation is the node's part in a rotation.
	Rotation Rotation `json:"rotation"`
	// Registry is absent before the node has one.
	Registry *Registry `json:"registry,omitempty"`
	// Snapshots are all Transit versions that the node knows, by ascending
	// version, removed ones included. Never null.
	//
	// +listType=atomic
	Snapshots []Snapshot `json:"snapshots"`
	// Preflight is what the node can say before an operator goes on.
	Preflight Preflight `json:"preflight"`
	// Observations are the times of what the report rests on.
	Observations Observations `json:"observations"`
}

// Provider says who reports.
type Provider struct {
	// Name is transit.keyIdScope.providerName.
	Name string `json:"name"`
	// Version is the build's.
	Version string `json:"version"`
	// Fingerprint is that of the configuration: equal on all nodes of a cluster.
	Fingerprint string `json:"fingerprint"`
}

// Readiness is what the provider's KMS Status and /ready say.
type Readiness struct {
	// Ready is set when KMS Status is healthy and the node encrypts.
	Ready bool `json:"ready"`
	// Reasons are the codes of design/observability; the first one is what the
	// API server is told. Never null.
	//
	// +listType=atomic
	Reasons []string `json:"reasons"`
	// Stale is set when metadata was last validated longer ago than
	// status.statusMaxStaleness.
	Stale bool `json:"stale"`
	// PersistenceDegraded is set while a failed save is outstanding.
	PersistenceDegraded bool `json:"persistenceDegraded"`
	// MetadataErrorClass is that of the last metadata probe, while it has failed.
	MetadataErrorClass string `json:"metadataErrorClass,omitempty"`
	// DeepErrorClass is that of the last deep probe, while it has failed.
	DeepErrorClass string `json:"deepErrorClass,omitempty"`
}

// Key names one Transit version.
type Key struct {
	// KeyIDHash is h(key_id): 43 characters of base64url.
	KeyIDHash string `json:"keyIdHash"`
	// TransitVersion is the version of the Transit key, from 1.
	TransitVersion int `json:"transitVersion"`
}

// RotationState is where a node stands.
type RotationState string

// The rotation states (design: observability, metrics).
const (
	RotationActive  RotationState = "active"  // nothing is pending
	RotationPending RotationState = "pending" // a newer version waits
	RotationUnknown RotationState = "unknown" // there is no registry
)

// Rotation is the node's part in a rotation.
type Rotation struct {
	// State is active, pending or unknown.
	State RotationState `json:"state"`
	// Pending is present exactly while the state is pending.
	Pending *Pending `json:"pending,omitempty"`
}

// Pending is the version that waits for promotion.
type Pending struct {
	Key `json:",inline"`
	// Observations are the metadata probes that saw it as the latest.
	Observations int `json:"observations"`
	// Required is how many it needs: rotation.requireStableObservationCount.
	Required int `json:"required"`
	// Stable is set when as many are durable.
	Stable bool `json:"stable"`
	// EstimatedPromotion is when this process's activation delay ends: the first
	// good metadata probe from then on promotes. Absent while the delay does not
	// run; in the past while that probe is awaited.
	EstimatedPromotion Time `json:"estimatedPromotion,omitempty"`
}

// CheckpointState says how the files on the node's disk stand to its registry.
type CheckpointState string

// The checkpoint states.
const (
	// CheckpointConfirmed: when last written or looked at, the state file and
	// its checkpoint held the reported registry.
	CheckpointConfirmed CheckpointState = "confirmed"
	// CheckpointOutstanding: a save failed and is being repeated. The files hold
	// the reported registry, its successor, or one of each.
	CheckpointOutstanding CheckpointState = "save_outstanding"
	// CheckpointConflict: a file holds something else.
	CheckpointConflict CheckpointState = "conflict"
	// CheckpointUnreadable: a file cannot be read.
	CheckpointUnreadable CheckpointState = "unreadable"
)

// Registry is the published key registry.
type Registry struct {
	// Generation counts saved states from 1.
	Generation uint64 `json:"generation"`
	// StateHash is "sha256:" and 64 hex digits: what operators review.
	StateHash string `json:"stateHash"`
	// Checkpoint says how the files on the node's disk stand to the registry:
	// confirmed, save_outstanding, conflict or unreadable.
	Checkpoint CheckpointState `json:"checkpoint"`
}

// SnapshotState is what a version may be used for (design: registry, snapshots).
type SnapshotState string

// The snapshot states. Retained ones decrypt.
const (
	SnapshotActive   SnapshotState = "active"
	SnapshotPending  SnapshotState = "pending"
	SnapshotRetired  SnapshotState = "retired"
	SnapshotRemoved  SnapshotState = "removed"
	SnapshotRejected SnapshotState = "rejected"
)

// Snapshot is one Transit version as the node knows it.
type Snapshot struct {
	Key `json:",inline"`
	// State is active, pending, retired, removed or rejected.
	State SnapshotState `json:"state"`
}

// Observations are the times of what the report rests on.
type Observations struct {
	// Metadata is the last look at the Transit key's metadata.
	Metadata MetadataObservation `json:"metadata"`
	// DeepProbe is the last round trip of random bytes.
	DeepProbe DeepObservation `json:"deepProbe"`
	// State is the last time that both files were known to hold the registry.
	State StateObservation `json:"state"`
}

// MetadataObservation is the last look at the Transit key's metadata.
type MetadataObservation struct {
	// ProbedAt is when the last probe began, however it ended.
	ProbedAt Time `json:"probedAt,omitempty"`
	// ValidatedAt is when one was last found good.
	ValidatedAt Time `json:"validatedAt,omitempty"`
	// Seen is the newest metadata that was read and fits the key profile, absent
	// when there was none.
	Seen *SeenMetadata `json:"seen,omitempty"`
}

// SeenMetadata is what OpenBao said of the key. A minimum of 0 or 1 sets no
// limit.
type SeenMetadata struct {
	// At is when it was read.
	At Time `json:"at"`
	// LatestVersion is the key's newest version, from 1.
	LatestVersion int `json:"latestVersion"`
	// MinDecryptionVersion is the lowest version that decrypts.
	MinDecryptionVersion int `json:"minDecryptionVersion"`
	// MinEncryptionVersion is the lowest version that encrypts.
	MinEncryptionVersion int `json:"minEncryptionVersion"`
	// MinAvailableVersion is the lowest version that OpenBao still holds.
	MinAvailableVersion int `json:"minAvailableVersion"`
}

// DeepObservation is the last round trip of random bytes.
type DeepObservation struct {
	// ProbedAt is when the last round trip began, however it ended.
	ProbedAt Time `json:"probedAt,omitempty"`
	// KeyIDHash is that of the key that was tried.
	KeyIDHash string `json:"keyIdHash,omitempty"`
}

// StateObservation is the last time that both files were known to hold the
// reported registry.
type StateObservation struct {
	// ConfirmedAt is that time.
	ConfirmedAt Time `json:"confirmedAt,omitempty"`
}
