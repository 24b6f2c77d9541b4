// Package diagnose answers what is wrong with a node, before it serves, while it
// serves and when it cannot: the checks of doctor, and what verify-key,
// rotation-plan and verify-rotation tell (design: config-and-cli).
//
// A check finds out one thing and says what it found, why it matters and what to
// do. The table in table.go says which checks there are and which others each of
// them needs; runner.go runs them in that order. A check that fails stops only
// those that need it, and they say so. Every command is a choice of checks and
// sections over the same examination.
//
// What may never happen here: something is written, on the node or in OpenBao
// (a login aside); a lock is taken; the running provider is disturbed; what could
// not be judged is told as a pass; a token, a path, a key name or a key_id gets
// into a report (see command).
package diagnose
