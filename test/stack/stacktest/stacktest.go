// Package stacktest ties the servers of package stack to the life of a test: what a test starts here is stopped when it ends, a start that
// fails ends the test, and a test that failed prints the end of each server's log. Only tests may use it.
package stacktest

import (
	"os"
	"strings"
	"testing"

	"github.com/baokms/baokms/test/stack"
)

// logLines is how much of each log a failed test prints.
const logLines = 60

// Dir is an empty directory with a short path, so that Unix sockets fit into it (T.TempDir's is too long). It is removed when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing the test's directory: %v", err)
		}
	})
	return dir
}

// CA is a CA for all servers of one test.
func CA(t testing.TB) *stack.CA {
	t.Helper()
	ca, err := stack.NewCA(Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// Transit starts Transit; without a Dir it gets one.
func Transit(t testing.TB, o stack.TransitOptions) *stack.Transit {
	t.Helper()
	if o.Dir == "" {
		o.Dir = Dir(t)
	}
	server, err := stack.StartTransit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	end(t, "transit", server)
	return server
}

// TransitCluster starts three Transit servers that share a raft storage; without a Dir they get one.
func TransitCluster(t testing.TB, o stack.TransitOptions) *stack.TransitCluster {
	t.Helper()
	if o.Dir == "" {
		o.Dir = Dir(t)
	}
	cluster, err := stack.StartTransitCluster(t.Context(), 3, o)
	if err != nil {
		t.Fatal(err)
	}
	end(t, "the transit cluster", cluster)
	return cluster
}

// Balancer ends a load balancer with the test. It takes what StartBalancer and the Balance methods return.
func Balancer(t testing.TB, b *stack.Balancer, err error) *stack.Balancer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stopping the load balancer: %v", err)
		}
	})
	return b
}

// Etcd starts etcd; without a Dir it gets one.
func Etcd(t testing.TB, o stack.EtcdOptions) *stack.Etcd {
	t.Helper()
	if o.Dir == "" {
		o.Dir = Dir(t)
	}
	server, err := stack.StartEtcd(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	end(t, "etcd", server)
	return server
}

// APIServer starts an API server; without a Dir or an Etcd it gets one.
func APIServer(t testing.TB, o stack.APIServerOptions) *stack.APIServer {
	t.Helper()
	if o.Dir == "" {
		o.Dir = Dir(t)
	}
	if o.Etcd == nil {
		o.Etcd = Etcd(t, stack.EtcdOptions{})
	}
	server, err := stack.StartAPIServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	end(t, "kube-apiserver", server)
	return server
}

// Provider starts a provider with a configuration for transit in a directory of its own.
func Provider(t testing.TB, binary string, transit *stack.Transit, c stack.ProviderConfig) *stack.Provider {
	t.Helper()
	files, err := stack.WriteProviderConfig(Dir(t), transit, c)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := stack.StartProvider(t.Context(), stack.ProviderOptions{Binary: binary, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	end(t, "bao-kms-provider", provider)
	return provider
}

// server is what every server of the stack can do.
type server interface {
	Stop() error
	Logs() string
}

// end stops a server with the test. It looks at the server only then, since a test may have restarted it meanwhile.
func end(t testing.TB, name string, s server) {
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if t.Failed() {
			lines := strings.Split(strings.TrimRight(s.Logs(), "\n"), "\n")
			t.Logf("the end of the log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-logLines):], "\n"))
		}
	})
}
