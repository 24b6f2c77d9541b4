package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KMSRotationPlan is one rotation of a Transit key across the control plane: which
// nodes must agree, and what may be retired afterwards. The manager answers in its
// status and never applies anything: operators do, on each node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=krp,categories=baokms
// +kubebuilder:selectablefield:JSONPath=`.spec.providerName`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.providerName`,priority=1
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=integer,JSONPath=`.status.activeTransitVersion`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.summary.nodes`
// +kubebuilder:printcolumn:name="Converged",type=string,JSONPath=`.status.conditions[?(@.type=="Converged")].status`
// +kubebuilder:printcolumn:name="Rewrite-Safe",type=string,JSONPath=`.status.conditions[?(@.type=="RewriteSafe")].status`
// +kubebuilder:printcolumn:name="Retirement",type=string,JSONPath=`.status.summary.retirement`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KMSRotationPlan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what a team writes and reviews.
	//
	// +required
	Spec KMSRotationPlanSpec `json:"spec,omitzero"`
	// Status is the manager's answer; nobody else writes it. Until its first answer
	// observedGeneration is -1, so that tools which wait for that field wait.
	//
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status KMSRotationPlanStatus `json:"status,omitzero"`
}

// KMSRotationPlanSpec is what a team writes and reviews.
//
// +kubebuilder:validation:XValidation:rule="!has(self.retirement) || !has(self.targetTransitVersion) || self.retirement.beforeVersion <= self.targetTransitVersion",message="retirement.beforeVersion must not be above targetTransitVersion: it would retire the version that all nodes are to use"
type KMSRotationPlanSpec struct {
	// ProviderName is transit.keyIdScope.providerName of the nodes' providers, one
	// line of at most 1024 characters without white space around it. It cannot be
	// changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\p{Cc}]*$') && self.trim() == self",message="providerName must be the provider's transit.keyIdScope.providerName: one line without white space around it"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="providerName cannot be changed: make another plan"
	ProviderName string `json:"providerName"`
	// Nodes is the set that must agree. A node without a report is not converged;
	// it is never ignored.
	//
	// +required
	Nodes NodeSet `json:"nodes"`
	// TargetTransitVersion is the version that all must have, from 1; without it,
	// whatever all agree on.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	TargetTransitVersion *int32 `json:"targetTransitVersion,omitempty"`
	// ReportMaxAge is the age from which a report no longer counts, from 1s to 24h.
	// It should be longer than the heartbeat of the reporters. A Go client that
	// leaves it zero gets the default.
	//
	// +optional
	// +kubebuilder:default="3m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="reportMaxAge must be a duration from 1s to 24h, such as 3m or 90s"
	ReportMaxAge metav1.Duration `json:"reportMaxAge,omitzero"`
	// SettleTime is how long all must have agreed before data may be rewritten. API
	// servers ask for the key about once a minute and keep the last good answer for
	// about three: below five minutes an API server may still write with the old key.
	// From 0s to 168h. A Go client that leaves it zero gets the default.
	//
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) <= duration('168h')",message="settleTime must be a duration from 0s to 168h, such as 5m or 1h30m"
	SettleTime metav1.Duration `json:"settleTime,omitzero"`
	// Retirement asks for the retirement of old versions; without it the plan ends
	// when data may be rewritten.
	//
	// +optional
	Retirement *Retirement `json:"retirement,omitempty"`
}

// NodeSet names nodes.
//
// +kubebuilder:validation:XValidation:rule="has(self.names) != has(self.selector)",message="exactly one of nodes.names and nodes.selector must be given"
type NodeSet struct {
	// Names are node names, each once, from 1 to 1000 of them.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Names []string `json:"names,omitempty"`
	// Selector chooses Node objects by label. An empty one chooses every node. A plan
	// whose selector matches more than 1000 is not judged.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="each of selector.matchExpressions must have operator In or NotIn with values, or Exists or DoesNotExist without"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// Retirement is the retirement of old versions, and its approval.
//
// +kubebuilder:validation:XValidation:rule="!has(self.approvedDigest) || has(self.evidence)",message="approvedDigest needs evidence: say in evidence.rewrite what proves that all data was written again, and in evidence.backups what becomes of backups"
type Retirement struct {
	// BeforeVersion is the lowest Transit version that stays, at least 2: all below
	// it are to be removed from every node's registry.
	//
	// +required
	// +kubebuilder:validation:Minimum=2
	BeforeVersion int32 `json:"beforeVersion"`
	// Evidence is what the approval rests on; no approval counts without it.
	//
	// +optional
	Evidence *Evidence `json:"evidence,omitempty"`
	// ApprovedDigest is status.retirement.digest as the reviewer saw it. When
	// anything in it changes, the approval no longer counts.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="approvedDigest must be copied from status.retirement.digest: sha256: and 64 lower-case hexadecimal digits; leave it out to approve nothing"
	ApprovedDigest string `json:"approvedDigest,omitempty"`
}

// Evidence are references in free text, such as change numbers.
type Evidence struct {
	// Rewrite refers to what proves that every encrypted object was written again.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.trim() != ''",message="evidence.rewrite must refer to what proves that all data was written again; it is blank"
	Rewrite string `json:"rewrite"`
	// Backups says what becomes of backups that need the old versions.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.trim() != ''",message="evidence.backups must refer to what becomes of backups that need the old versions; it is blank"
	Backups string `json:"backups"`
}

// KMSRotationPlanList is a list of KMSRotationPlans.
//
// +kubebuilder:object:root=true
type KMSRotationPlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []KMSRotationPlan `json:"items"`
}
