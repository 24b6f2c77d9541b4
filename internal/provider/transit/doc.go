// Package transit is the typed client of one key in one Transit mount: its
// metadata and profile, Encrypt, Decrypt, and the round trip of the deep probe
// (design: openbao; kms-service, encrypt).
//
// What never happens here: a key is created, rotated, configured or deleted; a
// request goes without an explicit key version and associated data; another
// version is tried than the one asked for; plaintext stays in a buffer that
// this package owns; a key name, a mount path, plaintext or ciphertext is put
// into an error.
//
// watch and kms call it through interfaces of their own, diagnose directly.
package transit
