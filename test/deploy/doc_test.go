// Package deploy holds what an operator is given to watch the provider with,
// deploy/prometheus and deploy/grafana, against the provider itself: a rule or a
// panel that names a metric, a label or a value that the binary does not export
// would be silent for ever, and nobody would notice before the night in which it
// was needed.
//
// It needs `make build servers` and test/deploy/tools.sh, which fetches promtool
// and prometheus. PromQL is read by Prometheus' own parser in test/deploy/promql.
package deploy
