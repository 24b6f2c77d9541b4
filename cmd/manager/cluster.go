package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/baokms/baokms/internal/cli"
)

// cluster is which API server a command talks to, from its flags.
type cluster struct {
	kubeconfig, context string
}

// clusterFlags adds --kubeconfig and --context.
func clusterFlags(cmd *cobra.Command) *cluster {
	c := &cluster{}
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "",
		"kubeconfig `file` (default $KUBECONFIG, else ~/.kube/config, else the service account of the pod)")
	cmd.Flags().StringVar(&c.context, "context", "", "`name` of the kubeconfig's context (default its current one)")
	return c
}

// config is the API server's address and the credentials, and the namespace that
// they are for.
func (c *cluster) config() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", runtimeError(fmt.Errorf("finding the cluster: %w; give --kubeconfig, or run it in a pod with a service account", err))
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", runtimeError(fmt.Errorf("finding the namespace: %w", err))
	}
	config.UserAgent = program
	return config, namespace, nil
}

// logging is how a command logs, from its flags.
type logging struct {
	level, format *string
}

// logFlags adds --log-level and --log-format.
func logFlags(cmd *cobra.Command) *logging {
	return &logging{
		level:  cli.ChoiceFlag(cmd, "log-level", "least level that is logged: debug, info, warn or error", "info", "debug", "warn", "error"),
		format: cli.ChoiceFlag(cmd, "log-format", "form of the log: json or text", cli.JSON, cli.Text),
	}
}

// logger logs to w, and makes the libraries do so, too.
func (l *logging) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	// The flag has only values that it knows.
	cobra.CheckErr(level.UnmarshalText([]byte(*l.level)))
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: names}
	var handler slog.Handler = slog.NewJSONHandler(w, options)
	if *l.format == cli.Text {
		handler = slog.NewTextHandler(w, options)
	}
	library := logr.New(probesUnlogged{LogSink: logr.FromSlogHandler(handler).GetSink()})
	ctrllog.SetLogger(library)
	klog.SetLogger(library.WithName("client-go"))
	return slog.New(handler)
}

// names are the provider's names of the fields that every line has (design:
// observability, logs).
func names(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		a.Key = "ts"
	case slog.MessageKey:
		a.Key = "message"
	}
	return a
}
