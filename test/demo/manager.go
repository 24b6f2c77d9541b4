package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/baokms/baokms/test/stack"
)

// Names that config/ has, and the demo's own.
const (
	managerNamespace = "baokms-system"
	managerAccount   = "bao-kms-manager"
	reporterAccount  = "bao-kms-node-reporter"
	nodeName         = "cp-1"
	planName         = "demo"
)

// settleTime is short for an audience; the default is five minutes.
const settleTime = 5 * time.Second

// manifest is the plan as it would be in Git.
func manifest(retirement string) string {
	return fmt.Sprintf(`apiVersion: kms.baokms.io/v1alpha1
kind: KMSRotationPlan
metadata: {name: %s}
spec:
  providerName: %s
  nodes: {names: [%s]}
  settleTime: %s
%s`, planName, stack.ProviderName, nodeName, settleTime, retirement)
}

// withRetirement is what the plan gets when version 1 is to go. Nothing is
// approved by an empty digest.
func withRetirement(digest string) string {
	retirement := `  retirement:
    beforeVersion: 2
    evidence: {rewrite: CHG-1042, backups: CHG-1043}
`
	if digest != "" {
		retirement += "    approvedDigest: " + digest + "\n"
	}
	return manifest(retirement)
}

// watch is the second act: the manager begins to look on. It was not needed until
// now, and nothing after this needs it.
func (w *world) watch(ctx context.Context) error {
	w.title("The manager: what a whole control plane's keys are doing")
	return w.acts(ctx, []act{
		{"kubectl apply -k config/default: kinds, rights, who may report", w.install, nil},
		{"bao-kms-manager node-reporter: tells what this node reports", w.startReporter, nil},
		{"bao-kms-manager run: judges, and never touches a node", w.startManager, nil},
		{"kubectl apply: a plan that watches this control plane", w.applies(manifest("")), nil},
		w.planIs("RewriteSafe", "kubectl get krp demo: all nodes are on one key"),
	})
}

// install applies config/ as it is, and makes the node that the reporter is on.
// Nothing runs pods here: the demo starts manager and reporter itself.
func (w *world) install(ctx context.Context) (err error) {
	if w.kubectl, err = stack.NewKubectl(w.api, w.path("kubectl"), w.bins.Kubectl, stack.User{}); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"apply", "--server-side", "-k", filepath.Join(w.bins.Root, "config", "default")},
		{"wait", "--for=condition=Established", "crd/kmsnodereports.kms.baokms.io", "crd/kmsrotationplans.kms.baokms.io"},
	} {
		if _, err := w.kubectl.Run(ctx, command...); err != nil {
			return err
		}
	}
	_, err = w.kubectl.RunWith(ctx, "{apiVersion: v1, kind: Node, metadata: {name: "+nodeName+"}}", "create", "-f", "-")
	return err
}

// kubeconfig is one with a token of a service account.
func (w *world) kubeconfig(ctx context.Context, account string, more ...string) (string, error) {
	token, err := w.kubectl.Run(ctx, append([]string{"create", "token", account, "--namespace", managerNamespace}, more...)...)
	if err != nil {
		return "", err
	}
	file := w.path("kubectl", account)
	return file, w.api.WriteKubeconfig(file, stack.User{Token: strings.TrimSpace(token), Namespace: managerNamespace})
}

// startReporter starts the node's reporter, with a token that is bound to the node.
func (w *world) startReporter(ctx context.Context) error {
	uid, err := w.kubectl.Run(ctx, "get", "node", nodeName, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	kubeconfig, err := w.kubeconfig(ctx, reporterAccount, "--bound-object-kind=Node", "--bound-object-name="+nodeName, "--bound-object-uid="+uid)
	if err != nil {
		return err
	}
	reporter, err := stack.StartReporter(ctx, stack.ReporterOptions{
		Binary: w.manager, Kubeconfig: kubeconfig, Dir: w.path("manager"), Node: nodeName, Socket: w.files.ReportSocket,
	})
	return w.started("bao-kms-manager node-reporter", reporter, err)
}

func (w *world) startManager(ctx context.Context) error {
	kubeconfig, err := w.kubeconfig(ctx, managerAccount)
	if err != nil {
		return err
	}
	// Without another replica there is nobody to hand a lease to.
	manager, err := stack.StartManager(ctx, stack.ManagerOptions{
		Binary: w.manager, Kubeconfig: kubeconfig, Dir: w.path("manager"), Args: []string{"--leader-elect=false"},
	})
	return w.started("bao-kms-manager run", manager, err)
}

// applies applies the plan as kubectl does from Git.
func (w *world) applies(plan string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := w.kubectl.RunWith(ctx, plan, "apply", "-f", "-")
		return err
	}
}

// planIs waits until the plan has come to a phase, and shows what kubectl get shows.
func (w *world) planIs(phase, text string) act {
	var table string
	return act{text, func(ctx context.Context) (err error) {
		_, err = w.kubectl.Run(ctx, "wait", "--for=jsonpath={.status.phase}="+phase, "--timeout=60s", "krp/"+planName)
		if err == nil {
			table, err = w.kubectl.Run(ctx, "get", "krp", planName)
		}
		return err
	}, func() { w.table(table) }}
}

// ofPlan reads one field of the plan.
func (w *world) ofPlan(ctx context.Context, path string) (string, error) {
	value, err := w.kubectl.Run(ctx, "get", "krp", planName, "-o", "jsonpath={"+path+"}")
	if err == nil && value == "" {
		err = fmt.Errorf("the plan %s has no %s", planName, path)
	}
	return value, err
}

// carryOut runs on the node the command that the plan's status shows for it, while
// the provider is stopped, and returns what it printed. It must be the one that the
// node's own plan led to expect.
func (w *world) carryOut(ctx context.Context, reviewed plan) (string, error) {
	command, err := w.ofPlan(ctx, ".status.nodes[0].retirement.command")
	if err != nil {
		return "", err
	}
	name, args, _ := strings.Cut(command, " ")
	if name != filepath.Base(w.provider) || !strings.Contains(args, reviewed.StateHash) || !strings.Contains(args, reviewed.NextStateHash) {
		return "", fmt.Errorf("the plan shows the command %q, which is not what the node planned", command)
	}
	if err := w.node.Stop(); err != nil {
		return "", err
	}
	out, err := w.run(ctx, strings.Fields(args)...)
	if err != nil {
		return "", err
	}
	return out, w.node.Start(ctx)
}

// nodePlan is the plan that the node itself prints.
func (w *world) nodePlan(ctx context.Context) (p plan, err error) {
	doc, err := w.run(ctx, "retire-versions", "--before-version", "2", "--output", "json")
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(doc), &p)
}
