// Package deploytest holds what an operator is given to watch with, a rule file of deploy/prometheus or a dashboard of deploy/grafana, to what
// every such file keeps to, and against a Prometheus that scrapes the programs that make the series. Which programs those are, and what is
// particular to one file, is the caller's: test/deploy for the provider, test/packaging/dashboards for the manager and its plans.
//
// It changes no file of the checkout, but for a dashboard's order of keys when a test runs with -update. It must import nothing that
// test/packaging, a module of its own, does not have. Only tests may use it.
//
// It needs `make tools`, which fetches promtool and prometheus. PromQL is read by Prometheus' own parser in test/deploy/promql.
package deploytest

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

	"github.com/baokms/baokms/test/stack"
)

// Patience bounds every condition that is waited for.
const Patience = 90 * time.Second

// Path is the absolute path of a file of the checkout; elem are its parts, seen from the root.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	// A server that is not built is nothing to this test: the root is told all the same.
	bins, err := stack.Find()
	if bins.Root == "" {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{bins.Root}, elem...)...)
}

// Read is the text of a file of the checkout.
func Read(t testing.TB, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(Path(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Built is the absolute path of a program below bin/. One that is not there ends the test and says what to run.
func Built(t testing.TB, elem ...string) string {
	t.Helper()
	file := Path(t, append([]string{"bin"}, elem...)...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("bin/%s is not there: run make build servers tools", filepath.Join(elem...))
	}
	return file
}

// Tool is promtool or prometheus: the one on PATH when both are there, as test/deploy/tools.sh decides, else the one that it fetched.
func Tool(t testing.TB, name string) string {
	t.Helper()
	_, promtoolErr := exec.LookPath("promtool")
	_, prometheusErr := exec.LookPath("prometheus")
	if promtoolErr == nil && prometheusErr == nil {
		return name
	}
	return Built(t, "tools", name)
}

// Run runs a command in a folder of the checkout. When it fails the test does, with what it said.
func Run(t testing.TB, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", filepath.Base(name), args, err, out)
	}
}

// Eventually waits until check has nothing to say against it, at most Patience. The last thing that it said ends the test.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Get is the body of an answer 200; any other answer is an error with its body.
func Get(url string) (string, error) {
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

// FreePort is a TCP port on 127.0.0.1 that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
