package plan

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestOptions(t *testing.T) {
	cases := []struct {
		name string
		o    Options
		want string // "" is accepted
	}{
		{"zero", Options{}, ""},
		{"no namespace for the lease", Options{LeaderElection: true}, "leader election needs a namespace"},
		{"a namespace", Options{LeaderElection: true, LeaseNamespace: "n"}, ""},
		{"times of the lease", Options{LeaseDuration: 5 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 2 * time.Second}, ""},
		{"a lease that ends before it is renewed", Options{LeaseDuration: 10 * time.Second}, "a lease of 10s, renewed within 10s by a try each 2s, cannot be held"},
		{"a lease below a second", Options{LeaseDuration: 900 * time.Millisecond, RenewDeadline: 800 * time.Millisecond, RetryPeriod: time.Millisecond}, "cannot be held"},
		{"one try", Options{RetryPeriod: 6 * time.Second}, "cannot be held"},
		{"tries that never stop", Options{RetryPeriod: -time.Second}, "cannot be held"},
		{"negative", Options{Concurrency: -1}, "concurrency is negative"},
		{"plain everywhere", Options{Metrics: ":8080", PlainMetrics: true}, "loopback IP address only"},
		{"plain on a name", Options{Metrics: "localhost:8080", PlainMetrics: true}, "loopback IP address only"},
		{"plain on an address", Options{Metrics: "10.0.0.1:8080", PlainMetrics: true}, "loopback IP address only"},
		{"plain without a port", Options{Metrics: "127.0.0.1", PlainMetrics: true}, "loopback IP address only"},
		{"plain on loopback", Options{Metrics: "127.0.0.1:8080", PlainMetrics: true}, ""},
		{"plain on loopback, IPv6", Options{Metrics: "[::1]:8080", PlainMetrics: true}, ""},
		{"plain, and none served", Options{PlainMetrics: true}, ""},
		{"secure everywhere", Options{Metrics: ":8443"}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.o.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
			if c.want != "" {
				if run := Run(context.Background(), &rest.Config{}, c.o); run == nil || run.Error() != err.Error() {
					t.Errorf("Run says %v", run)
				}
			}
		})
	}
}

// TestManagerOptions: what is said of metrics and leader election reaches
// controller-runtime.
func TestManagerOptions(t *testing.T) {
	build := func(o Options) (secure bool, address string, elects, locks bool) {
		t.Helper()
		o.Logger = slog.New(slog.DiscardHandler)
		o, err := o.complete()
		if err != nil {
			t.Fatal(err)
		}
		m, err := o.manager(&rest.Config{Host: "https://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		if m.Metrics.SecureServing != (m.Metrics.FilterProvider != nil) {
			t.Error("TLS and authorization do not go together")
		}
		return m.Metrics.SecureServing, m.Metrics.BindAddress, m.LeaderElection, m.LeaderElectionResourceLockInterface != nil
	}
	if secure, address, elects, locks := build(Options{}); secure || address != "0" || elects || locks {
		t.Error("the zero value serves metrics or elects")
	}
	if secure, address, _, _ := build(Options{Metrics: ":8443"}); !secure || address != ":8443" {
		t.Errorf("metrics on %s, secure %t", address, secure)
	}
	if secure, address, _, _ := build(Options{Metrics: "127.0.0.1:1", PlainMetrics: true}); secure || address != "127.0.0.1:1" {
		t.Errorf("plain metrics on %s, secure %t", address, secure)
	}
	if _, _, elects, locks := build(Options{LeaderElection: true, LeaseNamespace: "n"}); !elects || !locks {
		t.Errorf("leader election: %t, with a lock: %t", elects, locks)
	}
}

// TestRoleIsCurrent generates config/rbac/manager-role.yaml again, beside what is
// committed.
func TestRoleIsCurrent(t *testing.T) {
	const rbac = "../../../config/rbac"
	dir := t.TempDir()
	out, err := exec.Command("go", "tool", "controller-gen",
		"rbac:roleName=bao-kms-manager,fileName=manager-role.yaml,headerFile="+rbac+"/manager-header.txt", "paths=.", "output:dir="+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("controller-gen: %v\n%s", err, out)
	}
	want, err := os.ReadFile(filepath.Join(dir, "manager-role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(rbac, "manager-role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("config/rbac/manager-role.yaml is not current: run go generate ./internal/controller/plan")
	}
}
