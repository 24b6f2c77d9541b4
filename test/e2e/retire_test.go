package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/report"
	"github.com/baokms/baokms/test/stack"
)

// promotes makes a provider promote with its first probe after a rotation.
var promotes = map[string]any{
	"status.probeInterval": "300ms", "rotation.requireStableObservationCount": 1, "rotation.activationDelay": "1ms",
}

// answered is what a command left behind.
type answered struct {
	code           int
	report         command.Report
	stdout, stderr string
}

// check is one of the report's checks, without a result when it has none of that
// id.
func (a answered) check(id string) command.Check {
	for _, c := range a.report.Checks {
		if c.ID == id {
			return c
		}
	}
	return command.Check{}
}

// operator runs one of the provider's commands on a node, with its configuration.
func operator(ctx context.Context, t *testing.T, p *stack.Provider, args ...string) (answered, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary(t), append(args, "--config", p.Files.Config, "--output", "json")...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return answered{}, err
	}
	a := answered{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &a.report); err != nil {
			return a, fmt.Errorf("the report is no JSON: %w\n%s", err, stdout.String())
		}
	}
	return a, nil
}

// asks runs a command that must end with this exit code and a report.
func asks(t *testing.T, p *stack.Provider, code int, args ...string) answered {
	t.Helper()
	a, err := operator(t.Context(), t, p, args...)
	if err != nil {
		t.Fatal(err)
	}
	if a.code != code || a.report.Kind == "" {
		t.Fatalf("%q ends with %d, want %d\n%+v\n%s", args, a.code, code, a.report.Checks, a.stderr)
	}
	return a
}

// plans asks for a plan that must be allowed, change something, and be the same
// whenever it is asked for.
func plans(t *testing.T, p *stack.Provider, args ...string) *command.Change {
	t.Helper()
	a := asks(t, p, 0, args...)
	c := a.report.Change
	if c == nil || c.Applied || c.StateHash == c.NextStateHash || c.StateHash != registryOf(t, p).Hash {
		t.Fatalf("%q plans %+v", args, c)
	}
	if again := asks(t, p, 0, args...); again.stdout != a.stdout {
		t.Errorf("%q plans\n%s\nand then\n%s", args, a.stdout, again.stdout)
	}
	return c
}

// applyOf is the command that applies a plan, as the plan itself prints it.
func applyOf(plan *command.Change, args ...string) []string {
	return append(args, "--apply", "--expected-state-hash", plan.StateHash, "--expected-next-state-hash", plan.NextStateHash)
}

// applies stops a provider, applies a plan to its files, and starts it again.
func applies(t *testing.T, p *stack.Provider, plan *command.Change, args ...string) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	a := asks(t, p, 0, applyOf(plan, args...)...)
	want := *plan
	want.Applied = true
	if got := a.report.Change; got == nil || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", want) {
		t.Fatalf("applied %+v, planned was %+v", got, want)
	}
	if r := registryOf(t, p); r.Hash != plan.NextStateHash || r.Generation != plan.NextGeneration {
		t.Fatalf("the state is generation %d, %s; planned was %d, %s", r.Generation, r.Hash, plan.NextGeneration, plan.NextStateHash)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, p)
}

// nodePlan is the plan that the running provider tells on its report socket.
func nodePlan(t *testing.T, p *stack.Provider, before int) *report.RetirementPlan {
	t.Helper()
	code, body := get(t, reportClient(p), fmt.Sprintf("/v1/retirement-plan?before-version=%d", before))
	if code != http.StatusOK {
		t.Fatalf("the node report's plan: %d %s", code, body)
	}
	plan, err := report.Decode[report.RetirementPlan]([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// wantSamePlan holds the node report's plan against the command's, field by field.
func wantSamePlan(t *testing.T, node *report.RetirementPlan, c *command.Change) {
	t.Helper()
	if node.BeforeVersion != c.BeforeVersion || !slices.Equal(node.RemovedVersions, c.RemovedVersions) || node.ActiveKeyIDHash != c.ActiveKeyIDHash ||
		node.StateHash != c.StateHash || node.NextGeneration != c.NextGeneration || node.NextStateHash != c.NextStateHash {
		t.Errorf("the node report plans %+v, the command %+v", node, c)
	}
}

// rotates makes version v and waits until every node has it active; then the API
// servers are started again, which makes them take the new key at once.
func (c *cluster) rotates(v int, restarted ...*node) {
	c.t.Helper()
	if _, err := c.transit.Rotate(c.t.Context(), c.transit.Key()); err != nil {
		c.t.Fatal(err)
	}
	for _, n := range c.nodes {
		eventuallyActive(c.t, n.provider, v)
	}
	c.restarts(restarted...)
}

func (c *cluster) restarts(nodes ...*node) {
	c.t.Helper()
	for _, n := range nodes {
		if err := n.api.Restart(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// rewrites writes again through n everything that is encrypted, under the version
// that is active: the Secrets with these names, and the API server's own
// ConfigMaps.
func (n *node) rewrites(names ...string) {
	n.c.t.Helper()
	active := registryOf(n.c.t, n.provider).active()
	for _, name := range names {
		if err := n.rewrite(name); err != nil {
			n.c.t.Fatal(err)
		}
		if got := n.c.raw(name).KeyID; got != active.KeyID {
			n.c.t.Fatalf("Secret %s has key_id %s after the rewrite", name, got)
		}
	}
	maps, err := n.client().CoreV1().ConfigMaps(metav1.NamespaceAll).List(n.c.t.Context(), metav1.ListOptions{})
	if err != nil {
		n.c.t.Fatal(err)
	}
	for _, m := range maps.Items {
		if _, err := n.client().CoreV1().ConfigMaps(m.Namespace).Update(n.c.t.Context(), &m, metav1.UpdateOptions{}); err != nil {
			n.c.t.Fatal(err)
		}
	}
}

// minimum raises min_decryption_version in OpenBao.
func (c *cluster) minimum(v int) {
	c.t.Helper()
	if err := c.transit.ConfigureKey(c.t.Context(), c.transit.Key(), map[string]any{"min_decryption_version": v}); err != nil {
		c.t.Fatal(err)
	}
}

// seal wraps bytes with a provider's active key, as the API server does a seed.
func seal(t *testing.T, p *stack.Provider) *kmsapi.DecryptRequest {
	t.Helper()
	sealed, err := kmsClient(t, p).Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("a seed")})
	if err != nil {
		t.Fatal(err)
	}
	return &kmsapi.DecryptRequest{Ciphertext: sealed.Ciphertext, KeyId: sealed.KeyId, Annotations: sealed.Annotations}
}

// wantDecrypt: a provider answers a Decrypt with this code.
func wantDecrypt(t *testing.T, p *stack.Provider, r *kmsapi.DecryptRequest, want codes.Code) {
	t.Helper()
	if _, err := kmsClient(t, p).Decrypt(t.Context(), r); status.Code(err) != want {
		t.Errorf("Decrypt ends with %v, want %v", err, want)
	}
}

// TestRetirementOfAFleet: three nodes retire version 1 one after the other, then
// OpenBao's minimum is raised; later it is raised first, which stops all of them,
// and retiring is the way out.
func TestRetirementOfAFleet(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for range 3 {
		c.join(promotes)
	}
	var names []string
	for i, n := range c.nodes {
		names = append(names, fmt.Sprintf("s%d", i))
		n.writeSecret(names[i])
	}
	first := c.nodes[0]
	underOne := seal(t, first.provider)
	c.rotates(2, first)
	first.rewrites(names...)

	retire := []string{"retire-versions", "--before-version", "2"}
	for _, n := range c.nodes {
		plan := plans(t, n.provider, retire...)
		if !slices.Equal(plan.RemovedVersions, []int{1}) || plan.Recovery {
			t.Errorf("the plan is %+v", plan)
		}
		wantSamePlan(t, nodePlan(t, n.provider, 2), plan)
		wantDecrypt(t, n.provider, underOne, codes.OK)
		applies(t, n.provider, plan, retire...)
		if got := registryOf(t, n.provider).version(1).State; got != "removed" {
			t.Errorf("version 1 is %q", got)
		}
		wantDecrypt(t, n.provider, underOne, codes.NotFound)
	}
	c.minimum(2)
	c.readsAndWrites("after", &names)

	c.rotates(3, first)
	first.rewrites(names...)
	stays := seal(t, first.provider)
	c.minimum(3)
	for _, n := range c.nodes {
		eventuallyReason(t, n.provider, "versions_blocked")
		if _, err := kmsClient(t, n.provider).Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte("a seed")}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Encrypt while a version is blocked: %v, want FailedPrecondition", err)
		}
		wantDecrypt(t, n.provider, stays, codes.OK)
	}
	retire = []string{"retire-versions", "--before-version", "3"}
	for _, n := range c.nodes {
		plan := plans(t, n.provider, retire...)
		if !slices.Equal(plan.RemovedVersions, []int{2}) || !plan.Recovery {
			t.Errorf("the plan of the recovery is %+v", plan)
		}
		wantSamePlan(t, nodePlan(t, n.provider, 3), plan)
		applies(t, n.provider, plan, retire...)
	}
	c.readsAndWrites("recovered", &names)
}

// readsAndWrites starts every provider and API server again and goes through all
// Secrets with each, and one more.
func (c *cluster) readsAndWrites(prefix string, names *[]string) {
	c.t.Helper()
	for i, n := range c.nodes {
		if err := n.provider.Restart(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		eventuallyReady(c.t, n.provider)
		c.restarts(n)
		name := fmt.Sprintf("%s-%d", prefix, i)
		n.writeSecret(name)
		if got, want := c.raw(name).KeyID, registryOf(c.t, n.provider).active().KeyID; got != want {
			c.t.Errorf("Secret %s is written with key_id %s, want %s", name, got, want)
		}
		*names = append(*names, name)
		for _, name := range *names {
			n.mustReadSecret(name)
		}
	}
}
