// Package deploy holds what an operator is given to watch the provider with,
// deploy/prometheus and deploy/grafana, against the provider itself: a rule or a
// panel that names a metric, a label or a value that the binary does not export
// would be silent for ever, and nobody would notice before the night in which it
// was needed.
//
// It needs `make build servers tools`. What is asked of every rule file and
// dashboard is in deploytest; here is what is particular to the provider's.
package deploy
