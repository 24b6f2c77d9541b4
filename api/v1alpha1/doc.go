// Package v1alpha1 is the Kubernetes API of kms.baokms.io: KMSRotationPlan, which
// a team writes and reviews in Git, and KMSNodeReport, which each node's reporter
// writes (design: manager).
//
// It holds types and their markers, and nothing that decides: rules on one object
// are CEL expressions here, everything else is in internal/controller. Both kinds
// are cluster-scoped. Nothing in them is secret: a key is named by the hash of its
// key_id and by its Transit version.
//
// +kubebuilder:object:generate=true
// +groupName=kms.baokms.io
package v1alpha1

// The deepcopy functions and config/crd come from here; generated_test.go says so
// when they are not current.
//go:generate go tool controller-gen object paths=. paths=../../internal/report
//go:generate go tool controller-gen crd:headerFile=../../config/crd/header.txt paths=. output:crd:dir=../../config/crd
