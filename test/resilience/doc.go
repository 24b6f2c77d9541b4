// Package resilience tries the built provider against real Transit servers that fail under it, and that come back: tokens revoked or
// short-lived, credentials that expire, policies narrowed, servers sealed, stopped, frozen, replaced, a raft cluster that loses its
// leader, rate limits. All the while 32 callers encrypt and decrypt over the KMS socket (design: openbao; testing, kinds).
//
// Every test holds what the callers saw against the codes that its phases allow, bounds the time until nothing fails any more, and counts
// what reached the servers: nothing may stampede. Whatever happens, no caller waits past its own deadline, no plaintext comes back wrong,
// Status answers at once, and the registry on disk is as it was. Each test prints what it measured; `go test -v` shows it.
//
// BAOKMS_TEST_BOUND=large makes the tests whose worth grows with time run for minutes. Only test files are here.
package resilience
