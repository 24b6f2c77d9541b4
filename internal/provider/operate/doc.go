// Package operate applies a reviewed plan to the files of a stopped provider:
// retire-versions and restore-versions with --apply (design: config-and-cli;
// registry, retirement and restoration).
//
// An apply takes the writer's lock, loads the registry under it, holds its hash
// against the reviewed one, makes the plan again from fresh metadata, and saves
// the one generation that the plan names. The plan is diagnose's, the transition
// registry's, the save store's: the same as in a plan that is only printed, in the
// node report and in serve.
//
// What may never happen here: something is saved without the lock, from a hash
// that nobody reviewed, or on metadata that was read before the lock was taken; a
// second save in one run; state that did not exist is created; anything is written
// to OpenBao but a login; an outcome that nobody can know is told as a success. A
// run that ends at any moment, however it ends, leaves the registry of before or
// the planned one, and both are completed by the next load.
//
// Only cmd/provider calls it, which has closed the process to others before
// (process.Harden) and prints what comes back.
package operate
