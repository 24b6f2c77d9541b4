// Package stack starts and stops the real servers that the project is tried against: Transit (the built server or a real OpenBao), etcd,
// kube-apiserver, and the product's own provider. Each is a process of its own on loopback ports, with TLS from a throw-away CA, in a
// directory that the caller gives.
//
// It is for tests, the demo and the benchmark, and never linked into a product binary. Tests use package stacktest, which ties a
// server's life to a test's. Nothing here outlives the program that started it, however that ends: on Linux the kernel kills the
// servers when it dies.
//
// The servers' binaries come from `make servers`; OPENBAO_BIN names a real OpenBao to use for Transit instead (design: testing).
// What differs between the two is in openbao.go and nowhere else.
//
// A context given to a function that starts something bounds the start only: the server then runs until it is stopped.
// Directories should be short: a Unix socket's path may have 107 bytes. Secrets written here (keys, JWTs, tokens) are made for one run,
// are worth nothing outside it, and are in files of mode 0600; even so, no error of this package holds one.
package stack
