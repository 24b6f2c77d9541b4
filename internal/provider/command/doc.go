// Package command is what the operator's commands answer: one report model, as
// text for a person and as JSON for a machine (design: config-and-cli).
//
// A Report is a list of checks and, beside it, the sections that a command has
// something to say in. Whoever makes one fills in values; how it looks is decided
// here alone. A report is pasted into tickets and chats, so what may never be in
// one is a token, a JWT, a key_id, a Transit path or key name, or the path of a
// file: a file is named by the field of the configuration that points to it, a
// key by its hash and version. The one exception is init's: its steps and files
// repeat what its flags said.
//
// The package is pure but for the io.Writer that it is given, and imports nothing
// of the provider. diagnose, operate, setup and benchmark make reports; only
// cmd/provider prints them.
package command
