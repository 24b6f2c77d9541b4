// Package identity is the wire contract between this provider, OpenBao and the
// objects in etcd: what a key_id is made of, which annotations accompany a
// ciphertext, and which bytes Transit authenticates together with it
// (design: identity).
//
// Every byte that this package produces is stored in etcd beside an object, or
// must be produced again to decrypt one. A change here makes data unreadable:
// the golden vectors under testdata may be added to, never edited.
//
// The model is small. A Scope holds the six configured names of one Transit
// key as one cluster sees it. Binding a Scope to one version of that key gives
// a Binding: the key_id, its hash, the associated data and the expected
// annotations, all computed once and never changed. A request is decrypted only
// when its annotations agree with the Binding that its key_id names.
//
// The package is pure: no files, no clock, no randomness, no goroutines, and
// nothing but the standard library. Nothing in it is secret, and no raw Transit
// path or key name enters a key_id, an annotation or the associated data.
package identity
