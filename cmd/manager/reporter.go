package main

import (
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/controller/reporter"
	"github.com/baokms/baokms/internal/provider/version"
)

// nodeNameVariable is where a pod's specification puts its node's name.
const nodeNameVariable = "NODE_NAME"

func (a *app) reporterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node-reporter",
		Short: "Keep the KMSNodeReport of this node current",
		Long: `node-reporter reads the report socket of this node's bao-kms-provider and writes
the KMSNodeReport that has the node's name: when something changed, and as a
heartbeat. It writes nothing else. It logs to standard error and runs until it
gets SIGTERM or SIGINT. /readyz is ready while the API server holds what the
reporter last had to say.

It exits with code 5 when it cannot start.`,
		Example: `  # In a pod whose NODE_NAME is spec.nodeName
  bao-kms-manager node-reporter \
    --report-socket /run/openbao-kms-report/report.sock

  # On the node itself, to a management cluster
  bao-kms-manager node-reporter --node-name cp-1 --kubeconfig management.conf \
    --report-socket /run/openbao-kms-report/report.sock`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	cluster, logs := clusterFlags(cmd), logFlags(cmd)
	node := flags.String("node-name", a.getenv(nodeNameVariable), "`name` of the Node object (default $"+nodeNameVariable+")")
	flags.Lookup("node-name").DefValue = ""
	socket := flags.String("report-socket", "", "`path` of the provider's report socket, server.reportSocketPath")
	interval := flags.Duration("interval", reporter.DefaultInterval, "longest `time` between two looks at the socket")
	heartbeat := flags.Duration("heartbeat", reporter.DefaultHeartbeat, "longest `time` between two writes of an unchanged report")
	probes := flags.String("probe-address", ":8082", "`address` of /healthz and /readyz; 0 serves none")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *node == "":
			return cli.Usage("name the node with --node-name or $" + nodeNameVariable)
		case *socket == "":
			return cli.Usage("name the provider's report socket with --report-socket")
		case *interval <= 0 || *heartbeat <= 0:
			return cli.Usage("--interval and --heartbeat must be positive")
		}
		config, _, err := cluster.config()
		if err != nil {
			return err
		}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			return err
		}
		direct, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
		if err != nil {
			return runtimeError(fmt.Errorf("making the client: %w", err))
		}
		logger := logs.logger(a.stderr)
		r, err := reporter.New(reporter.Options{Node: *node, Socket: *socket, Client: direct, Interval: *interval, Heartbeat: *heartbeat, Logger: logger})
		if err != nil {
			return cli.Exit(cli.ExitUsage, err)
		}
		// It brings the probes and an end in good order; its cache stays unused.
		m, err := manager.New(config, manager.Options{
			Scheme:                 scheme,
			Logger:                 logr.FromSlogHandler(logger.Handler()),
			HealthProbeBindAddress: address(*probes),
			Metrics:                metricsserver.Options{BindAddress: "0"},
		})
		if err != nil {
			return runtimeError(fmt.Errorf("making the node reporter: %w", err))
		}
		written := func(*http.Request) error { return r.Ready() }
		for _, err := range []error{m.Add(r), m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("report", written)} {
			if err != nil {
				return runtimeError(fmt.Errorf("making the node reporter: %w", err))
			}
		}
		build := version.Get()
		logger.Info("reporter.start", "version", build.Version, "commit", build.Commit, "node", *node)
		if err := m.Start(cmd.Context()); err != nil {
			return runtimeError(fmt.Errorf("running the node reporter: %w", err))
		}
		logger.Info("reporter.shutdown")
		return nil
	}
	return cmd
}
