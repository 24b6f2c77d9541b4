package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API's.
var GroupVersion = schema.GroupVersion{Group: "kms.baokms.io", Version: "v1alpha1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &KMSRotationPlan{}, &KMSRotationPlanList{}, &KMSNodeReport{}, &KMSNodeReportList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
