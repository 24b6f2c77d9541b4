// Package manager holds the tests of the Kubernetes API, the node reporter and
// the plan reconciler against a real kube-apiserver (design: testing; manager).
//
// TestMain starts one etcd and one API server for the package and installs
// config/crd; env_test.go is what every test uses of them. Tests share the
// server: an object's name contains its test's (see name), and a test looks only
// at objects of its own. Nothing here may need a provider, OpenBao or a node.
package manager
