// Package benchmark measures a running provider on its node: Status, Encrypt and
// Decrypt through its socket, beside the bare Transit calls that the same
// configuration gives, in turns and in one run (design: config-and-cli,
// commands; testing, benchmarks).
//
// It may run on a node that serves an API server, so it stays below the
// provider's caps, makes its calls with random plaintexts of its own, ends with
// the first call that fails, and writes nothing anywhere. Its token is its own:
// what OpenBao does to it does not touch the provider's. Figures never decide
// whether a run succeeded; a wrong answer does, and ends it.
//
// Only cmd/provider calls it. What measures is in load, which test/bench shares.
package benchmark
