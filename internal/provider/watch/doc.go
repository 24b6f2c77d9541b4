// Package watch drives the key registry: it reads OpenBao's metadata at
// intervals, hands it to registry's transitions, saves what they decide through
// store, proves keys by a real round trip, and publishes the result as one
// immutable status view (design: registry, kms-service).
//
// What may never happen here: a registry is published before it is durable; a
// promotion follows from anything but the metadata probe, a durable stable count
// and this process's own activation deadline; a failed save is forgotten or
// overtaken by another; the wall clock decides about a delay; a caller's
// impatience changes the provider's health.
//
// A Watcher is the one writer. Everything that moves the registry holds its
// turn, a semaphore of one: the probe loop, and a discovery that a Decrypt with
// an unknown key_id asked for. Readers never wait for it: they load the view.
// Only serve creates a Watcher.
package watch
