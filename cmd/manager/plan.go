package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/controller/plan/view"
)

// showTimeout bounds how long the API server is waited for.
const showTimeout = 30 * time.Second

func (a *app) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Look at a KMSRotationPlan",
		Long:    `plan has commands for people who prefer a page to a YAML document.`,
		Example: `  bao-kms-manager plan show workload-a-2026q4`,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage("name a command: show")
		},
	}
	cmd.AddCommand(a.showCommand())
	return cmd
}

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show where a plan stands and what to do next",
		Long: `show prints one KMSRotationPlan: its key, its conditions with their reasons,
every node, the digest to review, and what to do next, with the command for each
node when the retirement is approved. It needs the right to get the plan and
writes nothing. It says what the manager last wrote, and does not judge by
itself.`,
		Example: `  bao-kms-manager plan show workload-a-2026q4

  # The same for a script
  bao-kms-manager plan show workload-a-2026q4 --output json`,
		Args: cobra.ExactArgs(1),
	}
	cluster, output := clusterFlags(cmd), cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan, err := cluster.plan(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		v := view.Of(plan, time.Now())
		if *output == cli.JSON {
			return view.WriteJSON(a.stdout, v)
		}
		return view.WriteText(a.stdout, v)
	}
	return cmd
}

// plan reads one plan.
func (c *cluster) plan(ctx context.Context, name string) (*v1alpha1.KMSRotationPlan, error) {
	config, _, err := c.config()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, runtimeError(fmt.Errorf("making the client: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	plan := &v1alpha1.KMSRotationPlan{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: name}, plan); {
	case meta.IsNoMatchError(err):
		return nil, runtimeError(fmt.Errorf("this cluster has no KMSRotationPlans: %w; apply config/crd to the one that the manager runs against, or choose it with --context", err))
	case apierrors.IsNotFound(err):
		return nil, runtimeError(fmt.Errorf("there is no KMSRotationPlan %q in this cluster; list them with kubectl get krp", name))
	case err != nil:
		return nil, runtimeError(fmt.Errorf("reading the KMSRotationPlan %q: %w", name, err))
	}
	return plan, nil
}
