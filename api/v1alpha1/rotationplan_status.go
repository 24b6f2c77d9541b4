package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase summarises a plan's conditions.
//
// +kubebuilder:validation:Enum=Observing;Rotating;Converged;Settling;RewriteSafe;AwaitingReview;Approved;Applying;Retired;Degraded
type Phase string

// The phases, in the order of a rotation.
const (
	// Observing: not every node has told its state.
	Observing Phase = "Observing"
	// Rotating: nodes wait for a promotion, or are on different keys.
	Rotating Phase = "Rotating"
	// Converged: all agree, and settling has not been asked for.
	Converged Phase = "Converged"
	// Settling: all agree, but not yet for settleTime.
	Settling Phase = "Settling"
	// RewriteSafe: data may be rewritten.
	RewriteSafe Phase = "RewriteSafe"
	// AwaitingReview: every node has a retirement plan, and none is approved.
	AwaitingReview Phase = "AwaitingReview"
	// Approved: the digest is approved, no node has applied it.
	Approved Phase = "Approved"
	// Applying: some nodes have applied it.
	Applying Phase = "Applying"
	// Retired: all have.
	Retired Phase = "Retired"
	// Degraded: something contradicts the plan.
	Degraded Phase = "Degraded"
)

// The condition types of a plan (design: manager).
const (
	ConditionNodesReporting     = "NodesReporting"
	ConditionConverged          = "Converged"
	ConditionRewriteSafe        = "RewriteSafe"
	ConditionPreflightPassed    = "PreflightPassed"
	ConditionRetirementPlanned  = "RetirementPlanned"
	ConditionRetirementApproved = "RetirementApproved"
	ConditionRetirementApplied  = "RetirementApplied"
	ConditionDegraded           = "Degraded"
	ConditionReady              = "Ready"
)

// KMSRotationPlanStatus is the manager's answer.
type KMSRotationPlanStatus struct {
	// ObservedGeneration is the spec's that this status is about; -1 before the first.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase summarises the conditions.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// ActiveKeyIDHash is h(key_id) of the key that all nodes agree on; absent while
	// they do not.
	//
	// +optional
	ActiveKeyIDHash string `json:"activeKeyIDHash,omitempty"`
	// ActiveTransitVersion is that key's version, from 1; absent with it.
	//
	// +optional
	ActiveTransitVersion int32 `json:"activeTransitVersion,omitempty"`
	// ConvergedSince is since when all have agreed without a break.
	//
	// +optional
	ConvergedSince *metav1.Time `json:"convergedSince,omitempty"`
	// RewriteSafeAfter is when data may be rewritten if nothing changes until then:
	// convergedSince and settleTime. It says nothing about raising a minimum version
	// in OpenBao: that needs the operators' own evidence.
	//
	// +optional
	RewriteSafeAfter *metav1.Time `json:"rewriteSafeAfter,omitempty"`
	// Nodes has an entry for every node of the plan, by name.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Retirement is where the retirement stands.
	//
	// +optional
	Retirement *RetirementStatus `json:"retirement,omitempty"`
	// KeyHistory are the newest keys that all agreed on, oldest first, so that a
	// return to an earlier one is noticed.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	KeyHistory []KeySeen `json:"keyHistory,omitempty"`
	// Summary is for the columns of kubectl get.
	//
	// +optional
	Summary *PlanSummary `json:"summary,omitempty"`
	// Conditions are NodesReporting, Converged, RewriteSafe, PreflightPassed,
	// RetirementPlanned, RetirementApproved, RetirementApplied, Degraded and Ready.
	// Each message names the nodes concerned and the next step.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlanSummary is short text for people.
type PlanSummary struct {
	// Nodes is "2/3": nodes that are on the agreed key, of all.
	//
	// +optional
	Nodes string `json:"nodes,omitempty"`
	// Retirement is "2/3 applied", "planned" and so on; empty without one.
	//
	// +optional
	Retirement string `json:"retirement,omitempty"`
}

// NodeStatus is one node as the plan sees it. It is owned as a whole: who owns each
// of its fields would take more room than they do.
//
// +structType=atomic
type NodeStatus struct {
	// Name is the node's.
	//
	// +required
	Name string `json:"name"`
	// Ready is the provider's own word, false without a report that counts.
	Ready bool `json:"ready"`
	// Reasons are the provider's codes for not being ready, or why its report does
	// not count.
	//
	// +optional
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
	// KeyIDHash is h(key_id) of the key that the node encrypts with.
	//
	// +optional
	KeyIDHash string `json:"keyIDHash,omitempty"`
	// TransitVersion is that key's version, from 1.
	//
	// +optional
	TransitVersion int32 `json:"transitVersion,omitempty"`
	// RotationState is active, pending or unknown.
	//
	// +optional
	RotationState string `json:"rotationState,omitempty"`
	// Pending is the version that waits on the node, if one does.
	//
	// +optional
	Pending *NodePending `json:"pending,omitempty"`
	// Generation is that of the node's registry, from 1.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// StateHash is the registry's: sha256: and 64 hexadecimal digits.
	//
	// +optional
	StateHash string `json:"stateHash,omitempty"`
	// Checkpoint is the checkpoint state of the node report.
	//
	// +optional
	Checkpoint string `json:"checkpoint,omitempty"`
	// Preflight is the result of the node's preflight checks.
	//
	// +optional
	Preflight *NodePreflight `json:"preflight,omitempty"`
	// PersistenceDegraded is set while a failed save is outstanding on the node.
	//
	// +optional
	PersistenceDegraded bool `json:"persistenceDegraded,omitempty"`
	// ProviderVersion is the build of the node's provider.
	//
	// +optional
	ProviderVersion string `json:"providerVersion,omitempty"`
	// LastSeen is when the provider last answered its reporter, as of the last
	// change of this status: while nothing else changes it may be ten minutes behind,
	// or reportMaxAge when that is longer.
	//
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// WentBackFrom is the newest registry that the node was seen with, while its
	// present one is older, or another one of the same generation.
	//
	// +optional
	WentBackFrom *RegistryMark `json:"wentBackFrom,omitempty"`
	// Retirement is the node's part in the retirement; absent without one.
	//
	// +optional
	Retirement *NodeRetirementStatus `json:"retirement,omitempty"`
}

// RegistryMark names one state of a node's registry.
type RegistryMark struct {
	// Generation is the registry's, from 1.
	Generation int64 `json:"generation"`
	// StateHash is the registry's.
	StateHash string `json:"stateHash"`
	// TransitVersion is that of the key which it encrypted with.
	TransitVersion int32 `json:"transitVersion"`
}

// NodePending is a version that waits for its promotion.
type NodePending struct {
	// Version is the Transit version, from 1.
	Version int32 `json:"version"`
	// Observations are the metadata probes that saw it as the latest.
	Observations int32 `json:"observations"`
	// Required is how many it needs.
	Required int32 `json:"required"`
	// Stable is set when as many are durable.
	Stable bool `json:"stable"`
	// EstimatedPromotion is when the node's activation delay ends; absent while the
	// delay does not run.
	//
	// +optional
	EstimatedPromotion *metav1.Time `json:"estimatedPromotion,omitempty"`
}

// NodePreflight is the result of the node's preflight checks.
type NodePreflight struct {
	// Result is pass, warn, unknown or fail.
	Result string `json:"result"`
	// Failed are the ids of the checks that failed.
	//
	// +optional
	// +listType=atomic
	Failed []string `json:"failed,omitempty"`
}

// RetirementState is how a node stands to the retirement.
//
// +kubebuilder:validation:Enum=Planned;Applied;Changed
type RetirementState string

// The states of a node's retirement.
const (
	// RetirementPlanned: the node would remove what the digest says.
	RetirementPlanned RetirementState = "Planned"
	// RetirementApplied: it has.
	RetirementApplied RetirementState = "Applied"
	// RetirementChanged: its plan is no longer the one that was approved.
	RetirementChanged RetirementState = "Changed"
)

// NodeRetirementStatus is one node's part in the retirement.
type NodeRetirementStatus struct {
	// RemovedVersions are the Transit versions that the node removes, ascending.
	//
	// +optional
	// +listType=atomic
	RemovedVersions []int32 `json:"removedVersions,omitempty"`
	// StateHash is that of the registry before the retirement; of a node that has
	// applied it, as it was approved.
	//
	// +optional
	StateHash string `json:"stateHash,omitempty"`
	// NextStateHash is that of the registry after it.
	//
	// +optional
	NextStateHash string `json:"nextStateHash,omitempty"`
	// NextGeneration is that of the registry after it.
	//
	// +optional
	NextGeneration int64 `json:"nextGeneration,omitempty"`
	// ActiveKeyIDHash is that of the plan.
	//
	// +optional
	ActiveKeyIDHash string `json:"activeKeyIDHash,omitempty"`
	// State is Planned, Applied or Changed; absent without a plan.
	//
	// +optional
	State RetirementState `json:"state,omitempty"`
	// Problem says why the node has no plan.
	//
	// +optional
	Problem string `json:"problem,omitempty"`
	// Command is what an operator runs on the node to apply it; only while it is
	// approved and not applied.
	//
	// +optional
	Command string `json:"command,omitempty"`
}

// RetirementStatus is the retirement across all nodes.
type RetirementStatus struct {
	// BeforeVersion is the spec's that all this is about.
	//
	// +optional
	BeforeVersion int32 `json:"beforeVersion,omitempty"`
	// Digest is over provider name, beforeVersion and every node's plan: what a
	// reviewer copies into spec.retirement.approvedDigest. Absent until every node
	// has a plan.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
	// NodesPlanned is how many nodes have a plan or have applied it.
	NodesPlanned int32 `json:"nodesPlanned"`
	// NodesApplied is how many have applied it.
	NodesApplied int32 `json:"nodesApplied"`
	// ApprovedDigest is the last approval that counted; kept while
	// spec.retirement.approvedDigest is set.
	//
	// +optional
	ApprovedDigest string `json:"approvedDigest,omitempty"`
	// ChangedNodes differ from what that approval was for, joined the plan after
	// it, or left it. Empty while the approval counts.
	//
	// +optional
	// +listType=set
	ChangedNodes []string `json:"changedNodes,omitempty"`
	// Evidence is spec.retirement.evidence at the time of the approval.
	//
	// +optional
	Evidence *Evidence `json:"evidence,omitempty"`
}

// KeySeen is a key that all nodes agreed on.
type KeySeen struct {
	// KeyIDHash is h(key_id).
	KeyIDHash string `json:"keyIDHash"`
	// TransitVersion is the key's version, from 1.
	TransitVersion int32 `json:"transitVersion"`
	// FirstSeen is when all agreed on it first.
	FirstSeen metav1.Time `json:"firstSeen"`
	// LastSeen is when all last did.
	LastSeen metav1.Time `json:"lastSeen"`
}
