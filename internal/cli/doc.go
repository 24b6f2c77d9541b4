// Package cli is what the command trees of bao-kms-provider and bao-kms-manager
// have in common: how help is laid out, what an error looks like and which exit
// code it ends with, flags with a fixed set of values, shell completion, and the
// version command (design: config-and-cli). Only the packages below cmd and their
// tests may use it.
//
// It knows no command but version and decides nothing. It may link neither a
// Kubernetes client nor anything that speaks to OpenBao: it is in both programs,
// and the provider must stay free of the one, the manager of the other. Standard
// output carries a command's result and nothing else; errors go to standard error,
// with every control character shown, because an error may name a file.
package cli
