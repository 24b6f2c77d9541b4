// Package operate applies a reviewed plan to the files of a stopped provider:
// retire-versions and restore-versions with --apply (design: config-and-cli;
// registry, retirement and restoration).
//
// An apply takes the writer's lock, makes sure that nobody serves the provider's
// socket, loads the registry under the lock, holds its hash against the reviewed
// one, makes the plan again from fresh metadata, holds the outcome against the
// reviewed one where that is given, and saves that one generation. The plan is diagnose's, the transition
// registry's, the save store's: the same as in a plan that is only printed, in the
// node report and in serve.
//
// What may never happen here: something is saved without the lock, from a hash
// that nobody reviewed, or on metadata that was read before the lock was taken; a
// second save in one run; state that did not exist is created; anything is written
// to OpenBao but a login; an outcome that nobody can know, or that this run did not
// make and nobody reviewed, is told as applied. A run that ends at any moment,
// however it ends, leaves the registry of before or the planned one in the state
// file. Loading completes the save of the one that is there, and no more: a start
// does not apply a plan, only the same command does. That a load completes an
// earlier save holds for an apply too, also for one that is then refused.
//
// Only cmd/provider calls it, which has closed the process to others before
// (process.Harden) and prints what comes back.
package operate
