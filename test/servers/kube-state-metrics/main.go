// Command kube-state-metrics is the exporter of that name, built from its published module, for tests. It adds nothing to
// k8s.io/kube-state-metrics and takes the same flags; nothing of it is ever part of the product.
package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/kube-state-metrics/v2/pkg/app"
	"k8s.io/kube-state-metrics/v2/pkg/options"
)

func main() {
	o := options.NewOptions()
	options.InitCommand.Run = func(*cobra.Command, []string) {
		if err := app.RunKubeStateMetricsWrapper(context.Background(), o); err != nil {
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
	}
	o.AddFlags(options.InitCommand)
	if err := o.Parse(); err != nil {
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	if err := o.Validate(); err != nil {
		klog.ErrorS(err, "the flags are refused")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}
