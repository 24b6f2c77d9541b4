// Package dashboards holds what Prometheus and Grafana are given for plans, in deploy/kube-state-metrics, deploy/grafana and deploy/prometheus,
// against the programs that make the series: a real kube-state-metrics and the built bao-kms-manager on a real API server. A panel or
// an alert for a series that nobody exports would be silent for ever.
//
// It needs `make build servers tools`. What is asked of every rule file and dashboard is in test/deploy/deploytest; here is what is particular
// to those of plans.
package dashboards
