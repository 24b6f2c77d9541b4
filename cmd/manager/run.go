package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/controller/plan"
	"github.com/baokms/baokms/internal/provider/version"
)

// addressOff is how an address says that nothing is served.
const addressOff = "0"

func address(flag string) string {
	if flag == addressOff {
		return ""
	}
	return flag
}

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Reconcile the KMSRotationPlans of a cluster",
		Long: `run keeps the status of every KMSRotationPlan current: it watches the plans, the
KMSNodeReports and, once a plan has a selector, the metadata of Nodes. It writes
nothing but the status of plans, Events, and its lease. It logs to standard
error and runs until it gets SIGTERM or SIGINT.

Of several replicas the one with the lease works. Metrics are served over HTTPS
to those whom the API server allows to get /metrics.

It exits with code 5 when it cannot start, or loses its lease.`,
		Example: `  # In a pod, as config/manager runs it
  bao-kms-manager run

  # From a management cluster or a workstation, one replica, plain metrics
  bao-kms-manager run --kubeconfig workload-a.conf --leader-elect=false \
    --metrics-address 127.0.0.1:8080 --metrics-plain`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	cluster, logs := clusterFlags(cmd), logFlags(cmd)
	elect := flags.Bool("leader-elect", true, "work only while holding the lease "+plan.LeaseName)
	namespace := flags.String("leader-elect-namespace", "", "`namespace` of the lease (default the pod's or the kubeconfig's)")
	lease := flags.Duration("leader-elect-lease-duration", plan.DefaultLeaseDuration, "`time` after which another replica takes a lease that is not renewed")
	renew := flags.Duration("leader-elect-renew-deadline", plan.DefaultRenewDeadline, "`time` for which the leader tries to renew its lease before it ends")
	retry := flags.Duration("leader-elect-retry-period", plan.DefaultRetryPeriod, "`time` between two tries to get or renew the lease")
	probes := flags.String("probe-address", ":8081", "`address` of /healthz and /readyz; 0 serves none")
	metrics := flags.String("metrics-address", ":8443", "`address` of /metrics; 0 serves none")
	plain := flags.Bool("metrics-plain", false, "serve /metrics over HTTP to everyone; only on a loopback address")
	certificates := flags.String("metrics-cert-dir", "", "`directory` of tls.crt and tls.key for /metrics (default a self-signed certificate)")
	concurrency := flags.Int("concurrency", 4, "how many plans are judged at once")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o := plan.Options{
			LeaderElection:      *elect,
			LeaseNamespace:      cmp.Or(*namespace, "of the cluster"), // known once the kubeconfig is read
			LeaseDuration:       *lease,
			RenewDeadline:       *renew,
			RetryPeriod:         *retry,
			Probes:              address(*probes),
			Metrics:             address(*metrics),
			MetricsCertificates: *certificates,
			PlainMetrics:        *plain,
			Concurrency:         *concurrency,
			Logger:              logs.logger(a.stderr),
		}
		if *lease <= 0 || *renew <= 0 || *retry <= 0 {
			return cli.Usage("the times of leader election must be positive")
		}
		if err := o.Check(); err != nil {
			return cli.Exit(cli.ExitUsage, err)
		}
		config, own, err := cluster.config()
		if err != nil {
			return err
		}
		o.LeaseNamespace = cmp.Or(*namespace, own)
		build := version.Get()
		o.Logger.Info("manager.start", "version", build.Version, "commit", build.Commit, "leader_elect", *elect, "lease_namespace", o.LeaseNamespace)
		if err := a.reconcile(cmd.Context(), config, o); err != nil {
			return runtimeError(err)
		}
		o.Logger.Info("manager.shutdown")
		return nil
	}
	return cmd
}
