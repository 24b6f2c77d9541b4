package stacktest

import (
	"testing"

	"github.com/baokms/baokms/test/stack"
)

// Kubectl is kubectl as a user of an API server.
func Kubectl(t testing.TB, a *stack.APIServer, u stack.User) *stack.Kubectl {
	t.Helper()
	k, err := stack.NewKubectl(a, Dir(t), "", u)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Manager starts a manager; without a Dir it gets one.
func Manager(t testing.TB, o stack.ManagerOptions) *stack.Manager {
	t.Helper()
	if o.Dir == "" {
		o.Dir = Dir(t)
	}
	m, err := stack.StartManager(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	end(t, "bao-kms-manager run", m)
	return m
}

// Reporter starts a node reporter; without a Dir it gets one.
func Reporter(t testing.TB, o stack.ReporterOptions) *stack.Reporter {
	t.Helper()
	if o.Dir == "" {
		o.Dir = Dir(t)
	}
	r, err := stack.StartReporter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	end(t, "bao-kms-manager node-reporter on "+o.Node, r)
	return r
}
