// Package plan reconciles KMSRotationPlans: it keeps each plan's status at what
// package assess makes of the plan, its nodes' reports and the moment (design:
// manager, Reconciler). It is the run command of bao-kms-manager; only that command
// and tests may use it.
//
// It judges nothing itself. It reads a cache, asks assess, and writes the status by
// server-side apply when it changed. What may never happen here:
//
//   - a write to anything but the status of plans, Events and the manager's lease
//     (design: overview, invariant 12);
//   - a status written over one that was not the judgement's input: the write
//     carries the UID and resourceVersion that were read, so that neither the
//     settle clock nor an approval's memory can be lost to a second writer;
//   - an error of one plan that keeps another from being judged.
//
// # When a plan is judged
//
// When it changes; when a report of one of its nodes changes (index.go); when a
// Node begins or ceases to match its selector (nodes.go); when another plan of its
// provider changes in what assess looks at (peers.go); and at the moment that
// assess names as the next one at which time alone could change the status. There
// is no tick. A report that only says again what it said, in time, is none of
// these: assess's moment comes when it would have grown too old, and finds the
// newer one.
//
// A plan of many nodes has a large status, so it is left alone for a while after each
// write (pace.go): what changes meanwhile is judged together.
//
// # Who watches what
//
// Plans and reports always. Node objects, by their metadata alone, from the first
// plan with a selector on; a manager that has none needs no right to see Nodes. A
// second replica waits for the lease and watches nothing until then.
package plan

// The rights of the manager, from which config/rbac is generated. Everything is
// read through list and watch. Events of cluster-scoped objects are in the
// namespace default; the lease is in the manager's own. The reviews are of those
// who ask for metrics.
//
// +kubebuilder:rbac:groups=kms.baokms.io,resources=kmsrotationplans,verbs=list;watch
// +kubebuilder:rbac:groups=kms.baokms.io,resources=kmsrotationplans/status,verbs=patch
// +kubebuilder:rbac:groups=kms.baokms.io,resources=kmsnodereports,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=default
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update,namespace=baokms-system

//go:generate go tool controller-gen rbac:roleName=bao-kms-manager,fileName=manager-role.yaml,headerFile=../../../config/rbac/manager-header.txt paths=. output:rbac:dir=../../../config/rbac
