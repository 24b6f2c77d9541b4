// Package setup writes the files that a new control-plane node starts with, for
// the init command (design: config-and-cli): the provider's configuration, the
// API server's EncryptionConfiguration, the OpenBao policy, and what systemd or
// kubelet needs to run the provider. It then says what to do with them, step by
// step, so that an operator gets from there to an encrypted Secret with the
// output of init and doctor alone.
//
// Everything follows from flags (options.go). Where files belong on the node is
// fixed (layout.go): two nodes that were set up at different times look alike.
// Values are judged by package config, by reading the rendered file as serve
// does, before anything is written. What config need not care about but a shell,
// a unit or a manifest does is refused in check.go.
//
// What may never happen here:
//
//   - a file that exists is overwritten, changed or removed, unless this very run
//     made it;
//   - an identity value is made up: what a key_id is derived from is given by a
//     person, since it can never change afterwards;
//   - OpenBao, or the node outside the one directory, is touched: init prints
//     commands, people run them;
//   - a secret is asked for, read or written. Credentials are named by their path.
//
// Unlike every other report, init's holds the mount path, the key name and the
// paths of files: it repeats what its flags said, as commands to be run. Its
// errors name flags and never repeat a value.
//
// Only cmd/provider calls this package. It uses the file system below the
// directory that it is given, and the clock and the network not at all.
package setup
