// Package e2e runs the built binary as its users do: a real kube-apiserver and
// etcd in front of it, a real Transit server behind it, logged in with the
// policy that `policy openbao` prints (design: testing). Each file is a lane;
// its tests read as a story from top to bottom.
//
// Nothing here looks into the product: what is asserted is what the API server,
// etcd, Transit, the health endpoint, the log and the files say.
package e2e
