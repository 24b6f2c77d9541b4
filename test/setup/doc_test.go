// Package setup follows what init writes and says, as a new operator would, from an OpenBao with nothing in it to an encrypted Secret:
// its commands for OpenBao are run by a real shell against a real server, its files are read by the provider, by doctor and by a real
// kube-apiserver. Only the directories are others than on a node.
//
// It needs `make build servers`.
package setup
