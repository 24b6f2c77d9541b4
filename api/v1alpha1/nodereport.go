package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/internal/report"
)

// KMSNodeReport is what one control-plane node's provider last told about its key.
// Its name is the node's. Only that node's reporter writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=knr,categories=baokms
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.providerName`,priority=1
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="ProviderReachable")].status`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.report.readiness.ready`
// +kubebuilder:printcolumn:name="Version",type=integer,JSONPath=`.status.report.activeKey.transitVersion`
// +kubebuilder:printcolumn:name="Rotation",type=string,JSONPath=`.status.report.rotation.state`
// +kubebuilder:printcolumn:name="Preflight",type=string,JSONPath=`.status.report.preflight.result`
// +kubebuilder:printcolumn:name="Seen",type=date,JSONPath=`.status.observedAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KMSNodeReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec says whose report it is.
	//
	// +required
	Spec KMSNodeReportSpec `json:"spec,omitzero"`
	// Status is the last that the node's reporter saw; nobody else writes it.
	//
	// +optional
	Status KMSNodeReportStatus `json:"status,omitzero"`
}

// KMSNodeReportSpec says whose report it is.
type KMSNodeReportSpec struct {
	// ProviderName is transit.keyIdScope.providerName of the node's provider, one
	// line of at most 1024 characters without white space around it.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\p{Cc}]*$') && self.trim() == self",message="providerName must be the provider's transit.keyIdScope.providerName: one line without white space around it"
	ProviderName string `json:"providerName"`
}

// KMSNodeReportStatus is the last that the reporter saw.
type KMSNodeReportStatus struct {
	// ObservedAt is when the provider last answered. It grows old while it does
	// not: absence is never told as health.
	//
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`
	// Report is the provider's own, as its report socket gave it at observedAt. It is
	// owned as a whole: nothing of an older one, or of another writer, stays in it.
	//
	// +optional
	// +structType=atomic
	Report *report.NodeReport `json:"report,omitempty"`
	// RetirementPlans has one entry for each beforeVersion that a plan which names
	// this node asks for, by ascending version; empty when none does. It is owned as
	// a whole, as report is.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.beforeVersion == a.beforeVersion))",message="each beforeVersion of retirementPlans must be given once"
	RetirementPlans []NodeRetirement `json:"retirementPlans,omitempty"`
	// Conditions are ProviderReachable. False says that the provider does not
	// answer, and that report is as old as observedAt.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeRetirement is what retiring below a version would do on the node, or why
// the provider does not say so.
//
// +kubebuilder:validation:XValidation:rule="has(self.plan) != has(self.problem)",message="exactly one of plan and problem must be given"
type NodeRetirement struct {
	// BeforeVersion is the version that was asked for, at least 2.
	//
	// +required
	// +kubebuilder:validation:Minimum=2
	BeforeVersion int32 `json:"beforeVersion"`
	// Plan is the provider's answer, the same as its retire-versions command's.
	//
	// +optional
	Plan *report.RetirementPlan `json:"plan,omitempty"`
	// Problem is why there is none.
	//
	// +optional
	Problem *report.Problem `json:"problem,omitempty"`
}

// ConditionProviderReachable is True while the provider answers on its report
// socket.
const ConditionProviderReachable = "ProviderReachable"

// KMSNodeReportList is a list of KMSNodeReports.
//
// +kubebuilder:object:root=true
type KMSNodeReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []KMSNodeReport `json:"items"`
}
