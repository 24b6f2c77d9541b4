// Package reporter copies what one node's provider tells on its report socket
// into the KMSNodeReport of that node (design: manager, KMSNodeReport). It is the
// node-reporter command of bao-kms-manager, and only that command may use it.
//
// One goroutine does everything in cycles: ask the socket, compare with what is
// written, write when the content changed or a heartbeat is due. A second one
// watches the plans of the node's provider, which the API server selects, and wakes
// the first. What may never happen here:
//
//   - a write to anything but the KMSNodeReport whose name is the node's, or a
//     write that rests on another state of it than the one that was read;
//   - a provider that does not answer told as one that does: its last report
//     stays, with the age that it has, and the condition ProviderReachable says
//     why there is none newer;
//   - the report of one provider replaced by that of another: the object has to
//     be deleted by a person first.
//
// # Which plans ask
//
// A plan asks this node for its retirement plan when it is of the provider that
// the node reports and either names the node or has a selector. A reporter may not
// read Node objects, so it does not know its labels: it answers every selector.
// An answer that nobody needs costs one entry; the manager takes only those of
// the nodes that a plan's selector resolves to.
//
// # What is a change
//
// Everything but the passing of time. The times in a report move at every probe
// and are left out of the comparison; only their presence counts, and an
// estimated promotion that moved by more than its rounding.
package reporter

// The rights of a node reporter, from which config/rbac is generated. The spec of
// a report is written once, by its creation, so the object itself is never
// patched; plans are read through list and watch alone.
//
// +kubebuilder:rbac:groups=kms.baokms.io,resources=kmsnodereports,verbs=get;create
// +kubebuilder:rbac:groups=kms.baokms.io,resources=kmsnodereports/status,verbs=patch
// +kubebuilder:rbac:groups=kms.baokms.io,resources=kmsrotationplans,verbs=list;watch
