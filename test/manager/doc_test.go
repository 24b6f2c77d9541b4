// Package manager holds the tests of the Kubernetes API, the node reporter and
// the plan reconciler against a real kube-apiserver (design: testing; manager).
//
// TestMain starts one etcd and one API server for the package and installs
// config/crd; env_test.go is what every test uses of them. Tests share the
// server and run at the same time: an object's name contains its test's (see name),
// a test looks only at objects of its own, and a manager in the test's process is
// shown no others (see fleet.run). The built manager sees everything, so a test that
// runs it as the manager does not run in parallel. One test has a real provider and
// Transit; nothing else here may need a provider, OpenBao or a node.
//
// BenchmarkFleet measures how a manager grows with its fleet and prints a table:
//
//	go test -run '^$' -bench Fleet ./test/manager
package manager
