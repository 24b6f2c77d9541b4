package main

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/operate"
	"github.com/baokms/baokms/internal/provider/registry"
)

// applyFlags are those of a command that plans, or applies a reviewed plan.
type applyFlags struct {
	apply    bool
	reviewed operate.Reviewed
}

// The flags that hold an apply against what was reviewed.
const (
	stateHashFlag     = "expected-state-hash"
	nextStateHashFlag = "expected-next-state-hash"
)

func addApplyFlags(cmd *cobra.Command) *applyFlags {
	f := new(applyFlags)
	cmd.Flags().BoolVar(&f.apply, "apply", false, "carry out the reviewed plan; the provider must be stopped")
	cmd.Flags().StringVar(&f.reviewed.StateHash, stateHashFlag, "", "`stateHash` of the reviewed plan; with --apply only")
	cmd.Flags().StringVar(&f.reviewed.NextStateHash, nextStateHashFlag, "", "`nextStateHash` of the reviewed plan, held against the outcome; with --apply only")
	return f
}

// check refuses half of an apply, and what cannot be a hash: an empty one too,
// which would else be an apply without it.
func (f *applyFlags) check(cmd *cobra.Command) error {
	if f.apply && f.reviewed.StateHash == "" {
		return cli.Usage("--apply needs --expected-state-hash: plan first, review, and give the plan's stateHash")
	}
	for _, flag := range []struct{ name, hash string }{{stateHashFlag, f.reviewed.StateHash}, {nextStateHashFlag, f.reviewed.NextStateHash}} {
		switch {
		case !cmd.Flags().Changed(flag.name):
		case !f.apply:
			return cli.Usage("--" + flag.name + " is for --apply: without it nothing is changed")
		case !registry.IsHash(flag.hash):
			return cli.Usage("--" + flag.name + ` must be "sha256:" and 64 lower-case hex digits, as the reviewed plan prints it`)
		}
	}
	return nil
}

func (a *app) retireCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retire-versions --before-version N",
		Short: "Plan to retire old key versions, or apply a plan",
		Long: `retire-versions makes old Transit versions removed records on this node: it will
no longer decrypt with them, and no longer need them in OpenBao. It does not
touch OpenBao, other nodes, or any object in etcd.

Without --apply it changes nothing and prints the plan. The plan depends on the
registry alone and not on the time, so nextStateHash is what can be reviewed.
With --apply and the plan's stateHash it takes the lock that a running provider
holds, so the provider must be stopped, makes the plan again, and saves it once.
Give the plan's nextStateHash too: then only the reviewed outcome is saved, and
after an interruption the same command can be run again until it exits with 0.

Whether an object or a backup still needs a version is nothing that this command
can know: retire only with evidence of a complete rewrite. Raise a minimum in
OpenBao only when the plan says on every node that there is nothing to do.
restore-versions takes it back, as long as OpenBao still has the version.`,
		Example: `  runuser -u openbao-kms -- bao-kms-provider retire-versions --before-version 3
  runuser -u openbao-kms -- bao-kms-provider retire-versions \
    --before-version 3 --apply --expected-state-hash sha256:HASH \
    --expected-next-state-hash sha256:HASH`,
		Args: cobra.NoArgs,
	}
	var before int
	cmd.Flags().IntVar(&before, "before-version", 0, "lowest Transit `version` that stays, from 2 on (required)")
	flags := addApplyFlags(cmd)
	a.reports(cmd, func(ctx context.Context, o diagnose.Options) (*command.Report, error) {
		if flags.apply {
			return operate.ApplyRetirement(ctx, o, before, flags.reviewed)
		}
		return diagnose.PlanRetirement(ctx, o, before), nil
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case !cmd.Flags().Changed("before-version"):
			return required("--before-version")
		case before < 2 || before > math.MaxInt32:
			return cli.Usage("--before-version must be a Transit version from 2 on: nothing is below version 1")
		}
		return flags.check(cmd)
	}
	return cmd
}

func (a *app) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore-versions --versions N,N",
		Short: "Plan to take removed versions back, or apply a plan",
		Long: `restore-versions makes removed Transit versions decrypt again on this node. It
is for a retirement that came too early: an object or a backup still needs the
version. OpenBao must still have it, and its minimums must allow it; the command
does not touch OpenBao.

Without --apply it changes nothing and prints the plan. With --apply and the
plan's stateHash it takes the lock that a running provider holds, so the
provider must be stopped, makes the plan again, and saves it once. Give the
plan's nextStateHash too: then only the reviewed outcome is saved, and after an
interruption the same command can be run again until it exits with 0.`,
		Example: `  runuser -u openbao-kms -- bao-kms-provider restore-versions --versions 1,2
  runuser -u openbao-kms -- bao-kms-provider restore-versions --versions 1,2 \
    --apply --expected-state-hash sha256:HASH \
    --expected-next-state-hash sha256:HASH`,
		Args: cobra.NoArgs,
	}
	var versions versionsFlag
	cmd.Flags().Var(&versions, "versions", "removed Transit versions that must decrypt again (required)")
	flags := addApplyFlags(cmd)
	a.reports(cmd, func(ctx context.Context, o diagnose.Options) (*command.Report, error) {
		if flags.apply {
			return operate.ApplyRestoration(ctx, o, versions, flags.reviewed)
		}
		return diagnose.PlanRestoration(ctx, o, versions), nil
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if len(versions) == 0 {
			return required("--versions")
		}
		return flags.check(cmd)
	}
	return cmd
}

// versionsFlag is a list of Transit versions: "1,2". Given twice, both lists
// count.
type versionsFlag []int

func (f *versionsFlag) String() string {
	words := make([]string, len(*f))
	for i, v := range *f {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, ",")
}

// Type names the values in help texts.
func (f *versionsFlag) Type() string { return "N,N" }

// Set takes versions, each at least 1.
func (f *versionsFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || v < 1 || v > math.MaxInt32 {
			return errors.New("write versions from 1 on with commas between them: 1,2")
		}
		*f = append(*f, v)
	}
	return nil
}
