// Package share says which layer of the provider a profile's time or allocations belong to: its own code, gRPC, net/http with TLS, or the
// Go runtime with the kernel under it.
//
// It reads profiles that runtime/pprof wrote and changes nothing. Only the benchmark uses it (design: testing, benchmarks).
package share
