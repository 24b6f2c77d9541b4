package stack_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// managerBinary is bao-kms-manager as `make build` built it.
func managerBinary(t *testing.T) string {
	t.Helper()
	b, err := stack.Find()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.Root, "bin", "bao-kms-manager")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("bin/bao-kms-manager is not built: run make build")
	}
	return path
}

// probe asks a probe, which must answer with this status.
func probe(t *testing.T, c interface {
	Check(ctx context.Context, path string) (int, string, error)
}, path string, want int) {
	t.Helper()
	if code, said, err := c.Check(t.Context(), path); err != nil || code != want {
		t.Errorf("%s = %d %q, %v, want %d", path, code, said, err, want)
	}
}

// TestPeopleAndControllersOfAnAPIServer runs kubectl as an administrator and as a service account, and the manager's commands with
// kubeconfigs.
func TestPeopleAndControllersOfAnAPIServer(t *testing.T) {
	ctx := t.Context()
	a := stacktest.APIServer(t, stack.APIServerOptions{Flags: []string{"--shutdown-watch-termination-grace-period=1s"}})
	admin := stacktest.Kubectl(t, a, stack.User{})
	if info, err := os.Stat(admin.Kubeconfig()); err != nil || info.Mode() != 0o600 {
		t.Errorf("the kubeconfig has mode %v, %v", info.Mode(), err)
	}
	if out, err := admin.RunWith(ctx, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: somebody}}", "apply", "-f", "-"); err != nil || out != "serviceaccount/somebody created\n" {
		t.Fatalf("kubectl apply printed %q, %v", out, err)
	}
	token, err := admin.Run(ctx, "create", "token", "somebody")
	if err != nil {
		t.Fatal(err)
	}
	somebody := stacktest.Kubectl(t, a, stack.User{Token: strings.TrimSpace(token), Namespace: "elsewhere"})
	if who, err := somebody.Run(ctx, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); err != nil || who != "system:serviceaccount:default:somebody" {
		t.Errorf("the token's user is %q, %v", who, err)
	}
	// Its rights and its namespace are in the refusal.
	if out, err := somebody.Run(ctx, "get", "secrets"); err == nil || !strings.Contains(err.Error(), `in the namespace "elsewhere"`) || strings.Contains(err.Error(), strings.TrimSpace(token)) {
		t.Errorf("what somebody may not: %q, %v", out, err)
	}

	b, err := stack.Find()
	if err != nil {
		t.Fatal(err)
	}
	kinds := filepath.Join(b.Root, "config", "crd")
	for _, command := range [][]string{
		{"apply", "--server-side", "-k", kinds}, {"wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
	} {
		if _, err := admin.Run(ctx, command...); err != nil {
			t.Fatal(err)
		}
	}
	m := stacktest.Manager(t, stack.ManagerOptions{Binary: managerBinary(t), Kubeconfig: admin.Kubeconfig(), Args: []string{"--leader-elect=false"}})
	probe(t, m, "/healthz", http.StatusOK)
	probe(t, m, "/readyz", http.StatusOK)
	first := m.Pid()
	if err := m.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	probe(t, m, "/readyz", http.StatusOK)
	gone(t, first)
	if log, err := os.ReadFile(m.Log); err != nil || strings.Count(string(log), `"message":"manager.start"`) != 2 {
		t.Errorf("its log, %v, does not have two starts:\n%s", err, log)
	}

	// Without a provider a reporter has nothing to report, and is not ready.
	r := stacktest.Reporter(t, stack.ReporterOptions{
		Binary: managerBinary(t), Kubeconfig: admin.Kubeconfig(), Node: "cp-1", Socket: filepath.Join(stacktest.Dir(t), "report.sock"), NoWait: true,
	})
	eventually(t, "its probes answer", func() bool {
		_, _, err := r.Check(ctx, "/healthz")
		return err == nil
	})
	probe(t, r, "/healthz", http.StatusOK)
	probe(t, r, "/readyz", http.StatusInternalServerError)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if code, ended := r.ExitCode(); !ended || code != 0 {
		t.Errorf("the reporter ended %v with code %d", ended, code)
	}
}

func TestControllersThatCannotStart(t *testing.T) {
	dir, binary := stacktest.Dir(t), managerBinary(t)
	none := filepath.Join(dir, "none")
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no manager", second(stack.StartManager(t.Context(), stack.ManagerOptions{})), "Binary, Kubeconfig or Dir is missing"},
		{"no reporter", second(stack.StartReporter(t.Context(), stack.ReporterOptions{Binary: binary})), "Dir, Node or Socket is missing"},
		{"no binary", second(stack.StartManager(t.Context(), stack.ManagerOptions{Binary: none, Kubeconfig: none, Dir: dir})), "starting bao-kms-manager"},
		{"no kubectl", second(stack.NewKubectl(nil, dir, none, stack.User{})), "run make servers"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, c.err, c.want)
		}
	}
	_, err := stack.StartManager(t.Context(), stack.ManagerOptions{Binary: binary, Kubeconfig: none, Dir: dir})
	if exited := (*stack.ExitedError)(nil); !errors.As(err, &exited) || exited.Code != 5 {
		t.Errorf("without a kubeconfig: %v, want an ExitedError with code 5", err)
	}
}
