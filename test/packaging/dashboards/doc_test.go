// Package dashboards holds what Prometheus and Grafana are given for plans, in deploy/kube-state-metrics, deploy/grafana and deploy/prometheus,
// against the programs that make the series: a real kube-state-metrics and the built bao-kms-manager on a real API server. A panel or
// an alert for a series that nobody exports would be silent for ever.
//
// It needs `make build servers tools`.
package dashboards

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// root is the root of the checkout, seen from here.
const root = "../../.."

// patience bounds every condition that a test waits for.
const patience = 90 * time.Second

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// built is the absolute path of a program below bin/.
func built(t *testing.T, path ...string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(append([]string{root, "bin"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("bin/%s is not there: run make build servers tools", filepath.Join(path...))
	}
	return file
}

// promtool is the one on PATH when Prometheus is there, too, as test/deploy/tools.sh decides, else the one that it fetched.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if _, other := exec.LookPath("prometheus"); err != nil || other != nil {
		return built(t, "tools", "promtool")
	}
	return path
}

// eventually waits until check has nothing to say against it.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// get returns the body of an answer 200.
func get(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// freePort is a port on loopback that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
