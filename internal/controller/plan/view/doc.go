// Package view shows one KMSRotationPlan to a person on a terminal, or to a
// script as JSON: what the manager says, and what to do next (design: manager). It
// is the plan show command of bao-kms-manager.
//
// It judges nothing: every sentence about keys is one of the plan's status. It does
// no I/O but for the writer that it is given. Text is within 80 columns but for
// hashes, names and commands, which are never broken, without colour, and with
// every control character written as an escape sequence.
package view
