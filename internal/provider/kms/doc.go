// Package kms answers the Kubernetes API server: the KMS v2 service with its
// limits, its order of checks and its error policy (design: kms-service).
//
// What may never happen here:
//
//   - Status waits for anything, or says healthy with a key_id that Encrypt does
//     not use (design: overview, invariants 1 and 7);
//   - Encrypt uses anything but the one active snapshot that it took at its
//     start, or answers after another one became active (invariant 3);
//   - Decrypt tries a snapshot that the request's key_id does not name, or sends
//     a request to OpenBao that a local check could have refused (invariants 4
//     and 11);
//   - text that is not in fault's table leaves over gRPC (invariant 10).
//
// The package knows OpenBao, discovery, metrics and the status view only through
// the interfaces in service.go. The serve package makes the Service and its
// server, and owns their life.
package kms
