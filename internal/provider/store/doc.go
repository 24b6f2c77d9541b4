// Package store makes a key registry durable: a state file, a checkpoint that
// remembers the newest confirmed generation, and a lock that keeps every other
// writer out (design: registry, files).
//
// What may never happen here: a registry is reported as saved before both files
// and their directory are synced; a file is read or replaced through a link; a
// document that does not follow from the confirmed one is written; a file that
// looks wrong is "repaired". Load completes an interrupted save and otherwise
// fails with the file, what was expected and what to restore, and leaves
// everything as it found it.
//
// Every system call goes through the small directory interface in dir.go, so
// that tests can fail or cut short each one. The callers of Open are watch,
// inside serve, and the offline commands that apply a plan: both use the same
// Save. Every command may call Inspect, which takes no lock, reads beside a
// running writer and changes nothing.
package store
