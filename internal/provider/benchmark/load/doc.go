// Package load calls operations from many goroutines at once and says how many calls a second were answered and how long each took.
//
// It compares lanes with each other: operations that differ in one thing only. The machine underneath changes its speed from second to
// second, so the lanes take turns in short slices, several rounds of them, and what is compared is what the same round saw. It knows nothing
// of what an operation does, prints nothing, and never goes on after a call has failed: a rate of failures is no figure.
//
// Only the two benchmarks use it: the operator's command and test/bench (design: testing, benchmarks).
package load
