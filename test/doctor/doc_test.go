// Package doctor tries what the operator's commands say about a node against real servers: a Transit with the least-privilege policy, a
// provider's files, and the provider itself where a check looks at a running one (design: config-and-cli; testing, real servers).
//
// Every check is seen passing, and seen failing by breaking exactly that thing: nothing else may fail then. The reports of the package's
// functions are looked at, not their text. Whatever is broken, every report is held against what may never be in one: mount paths, the key's
// name, tokens, JWTs, key_ids, paths of files; and a command that looked only must have changed no file.
package doctor
