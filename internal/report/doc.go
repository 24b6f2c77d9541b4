// Package report holds the types of what a provider tells about its node on the
// report socket, version v1 (design: observability, node report). The provider
// writes them; the manager's node reporter reads them; both share this package
// and nothing else.
//
// # What a consumer may rely on
//
// Decode returns only documents whose fields agree with each other, so nothing
// has to be checked twice, and what is absent has one meaning:
//
//   - Registry and ActiveKey are absent, and Snapshots is empty, exactly while
//     the provider has no registry yet. Such a node is never ready.
//   - Readiness.Ready is true exactly when Readiness.Reasons is empty. A ready
//     node has a registry, and its ActiveKey is the one key that it encrypts
//     with and that its KMS Status names.
//   - Rotation.Pending is present exactly while a rotation is pending. Its
//     EstimatedPromotion is absent while the countdown does not run: absence is
//     never "soon" and never "done".
//   - Every check of CheckIDs is in Preflight.Checks. Preflight.Result is the
//     worst of them in the order fail, unknown, warn, pass. Unknown is not a
//     pass: the provider did not look, or its last look is too old.
//   - A time that is absent is the time of something that has not happened since
//     this process started. None is after GeneratedAt, so the age of what is
//     reported is the difference of the two, whatever either clock shows.
//     EstimatedPromotion alone may be after it.
//
// Times count from the provider's own wall clock at GeneratedAt and come from
// monotonic ages, so a clock that was set meanwhile does not bend them. They are
// the only fields that change while nothing happens on a node; all are in
// GeneratedAt, Observations and EstimatedPromotion.
//
// What may never be in a document: a token, a path, a key name, a key_id in the
// clear, or text that came from OpenBao or from a request.
//
// The package is pure: the standard library only, no I/O, no clock. It uses the
// time package to write and read RFC 3339.
//
// +kubebuilder:object:generate=true
package report
