// Package conformance holds a KMS v2 provider against the contract, with the real KMS v2 protobuf client on its Unix socket (handbook:
// kms-v2-contract, conformance; design: kms-service, identity, testing). It blocks a release.
//
// Run takes a Target. A socket alone is enough for the black-box cases, on any KMS v2 provider:
//
//	go test ./test/conformance -args -socket /run/openbao-kms/kms.sock
//	go test ./test/conformance -args -socket /run/other/kms.sock -contract=false
//
// KMS_SOCKET in the environment does what -socket does. Without either, the package's own test starts a real Transit and the built
// provider, logged in with exactly the least-privilege policy, and runs everything. Cases whose capabilities a target does not have are
// not part of its run; Run logs which these are.
//
// The suite encrypts and decrypts made-up bytes and changes nothing else on a socket that it was only pointed at. What it does to an
// OpenBao (sealing it, deleting its key) it does only through capabilities of the Target. Only tests may use it.
package conformance
