package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/test/envelope"
)

// run runs one of the operator's commands on the demo's node and returns what it
// printed. A command that exits with anything but 0 is an error that shows it.
func (w *world) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, w.provider, append(args, "--config", w.files.Config)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("bao-kms-provider %s: exit code %d\n%s%s", strings.Join(args, " "), exit.ExitCode(), out, exit.Stderr)
	}
	return string(out), err
}

// doctor returns what the node's checks say.
func (w *world) doctor(ctx context.Context, text string, args ...string) (out string, err error) {
	err = w.step(text, bounded(ctx, func(ctx context.Context) (err error) {
		out, err = w.run(ctx, append([]string{"doctor"}, args...)...)
		return err
	}))
	return out, err
}

// lastLine is the summary at a report's end.
func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// plan is what a review needs of a retirement.
type plan struct {
	Removed       []int  `json:"removedVersions"`
	StateHash     string `json:"stateHash"`
	NextStateHash string `json:"nextStateHash"`
}

// retire is the fourth act: the old version is given up, first by the node, after a
// review that the plan holds it to, then in OpenBao.
func (w *world) retire(ctx context.Context) error {
	w.title("The old version is retired: planned, reviewed, applied on the node")
	var out, digest string
	var reviewed plan
	return w.acts(ctx, []act{
		{"Evidence: no object in etcd names the old key_id", w.rewritten, nil},
		{"bao-kms-provider verify-rotation: what this node can say", func(ctx context.Context) (err error) {
			out, err = w.run(ctx, "verify-rotation")
			return err
		}, func() {
			w.say("%s; confidence: limited, one node cannot know the others", lastLine(out))
		}},
		{"kubectl apply: the plan asks to retire what is below version 2", w.applies(withRetirement("")), nil},
		w.planIs("AwaitingReview", "kubectl get krp demo: each node told what it would remove"),
		{"bao-kms-provider retire-versions: the node says the same", func(ctx context.Context) (err error) {
			reviewed, err = w.nodePlan(ctx)
			return err
		}, func() {
			w.show("removes", fmt.Sprintf("version %v", reviewed.Removed))
			w.show("stateHash", reviewed.StateHash)
			w.show("nextStateHash", reviewed.NextStateHash)
		}},
		{"Reviewed: the digest of all nodes goes into Git as approved", func(ctx context.Context) (err error) {
			if digest, err = w.ofPlan(ctx, ".status.retirement.digest"); err != nil {
				return err
			}
			return w.applies(withRetirement(digest))(ctx)
		}, func() { w.show("digest", digest) }},
		w.planIs("Approved", "kubectl get krp demo: the approval counts"),
		{"Stop the provider, run the command that the plan shows, start", func(ctx context.Context) (err error) {
			out, err = w.carryOut(ctx, reviewed)
			return err
		}, func() { w.quote(out) }},
		w.planIs("Retired", "kubectl get krp demo: every node has applied what was approved"),
		{"The platform team raises min_decryption_version in OpenBao", func(ctx context.Context) error {
			return w.transit.ConfigureKey(ctx, w.transit.Key(), map[string]any{"min_decryption_version": 2})
		}, nil},
		{"Restart provider and API server", func(ctx context.Context) error {
			if err := w.node.Restart(ctx); err != nil {
				return err
			}
			return w.api.Restart(ctx)
		}, nil},
		{"Read both back", w.readBack, func() {
			if r, err := w.registry(); err == nil {
				w.showRegistry(r)
			}
		}},
	})
}

// rewritten looks at every object in etcd that is encrypted.
func (w *world) rewritten(ctx context.Context) error {
	r, err := w.registry()
	if err != nil {
		return err
	}
	for _, prefix := range []string{"/registry/secrets/", "/registry/configmaps/"} {
		keys, err := w.etcd.Keys(ctx, prefix)
		if err != nil {
			return err
		}
		for _, key := range keys {
			raw, err := w.etcd.Get(ctx, key)
			if err != nil {
				return err
			}
			e, err := envelope.Parse(raw)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if e.KeyID != r[2].KeyID {
				return fmt.Errorf("%s was written with key_id %s and not rewritten", key, e.KeyID)
			}
		}
	}
	return nil
}

// rewrite stores every Secret and ConfigMap again, unchanged.
func (w *world) rewrite(ctx context.Context) error {
	core := w.api.Client().CoreV1()
	secrets, err := core.Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range secrets.Items {
		if _, err := core.Secrets(s.Namespace).Update(ctx, &s, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	configMaps, err := core.ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, c := range configMaps.Items {
		if _, err := core.ConfigMaps(c.Namespace).Update(ctx, &c, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
