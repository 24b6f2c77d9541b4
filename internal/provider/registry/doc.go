// Package registry decides which Transit version encrypts, which ones decrypt,
// and what may happen to them next (design: registry).
//
// A Snapshot is one Transit version as this provider knows it. A Registry is an
// immutable set of snapshots with a generation and the hash of the generation
// before it. Every transition takes a Registry and values, and returns a new
// Registry or an error that says what is wrong; nothing is ever changed in
// place, so a Registry may be read by any number of goroutines.
//
// Bootstrap, Observe, Discover and Promote are what a running provider does by
// itself; Retire and Restore are an operator's and the only ones that remove an
// identity from use or bring it back.
//
// What may never happen here: an accepted identity is forgotten, a removed one
// is revived by anything but an operator's restore, the active version moves
// backwards, or a Registry exists that breaks an invariant. Every Registry, from
// a transition or from a file, is made by one function that checks them all.
//
// The package is pure: it reads no clock and no file and starts no goroutine.
// Times, metadata and documents come in as values. It holds nothing secret:
// neither the Transit mount path nor the key name is in a Registry. Making a
// Registry durable is the work of store; driving it is the work of watch.
package registry
