package stack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// roleEnv makes this test binary play another program.
const roleEnv = "STACK_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "parent":
		playParent()
	case "provider":
		playProvider()
	default:
		os.Exit(m.Run())
	}
}

// playParent starts a process, prints its id and waits to be killed.
func playParent() {
	p, err := launch(command{name: "sleeper", path: "/bin/sleep", args: []string{"600"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Pid())
	<-p.Done()
}

// playProvider listens on the socket of its configuration until it gets SIGTERM, as a provider does.
func playProvider() {
	var config struct {
		Server struct {
			SocketPath string `json:"socketPath"`
		} `json:"server"`
	}
	if len(os.Args) < 4 || os.Args[1] != "serve" || os.Args[2] != "--config" {
		fmt.Fprintln(os.Stderr, "not called as a provider")
		os.Exit(2)
	}
	raw, err := os.ReadFile(os.Args[3])
	if err != nil || yaml.Unmarshal(raw, &config) != nil || config.Server.SocketPath == "" {
		fmt.Fprintln(os.Stderr, "no usable configuration")
		os.Exit(3)
	}
	l, err := net.Listen("unix", config.Server.SocketPath)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(5)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(5)
		}
		_ = conn.Close()
	}
}

// running says whether a process runs; one that ended and was not reaped does not.
func running(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, ok := strings.Cut(string(stat), ") ")
	if !ok {
		t.Fatalf("unknown form of the process's status: %q", stat)
	}
	return after[0] != 'Z' && after[0] != 'X'
}

// eventually polls a condition for at most ten seconds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := until(t.Context(), nil, what, func(context.Context) error {
		if condition() {
			return nil
		}
		return errors.New("not yet")
	})
	if err != nil {
		t.Fatal(err)
	}
}

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := launch(command{name: "script", path: "/bin/sh", args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestProcessExitCodes(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         int
	}{
		{"success", "exit 0", 0},
		{"failure", "exit 5", 5},
		{"killed by itself", "kill -KILL $$", 137},
		{"terminated by itself", "kill -TERM $$", 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := shell(t, c.script)
			code, err := p.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if again, ok := p.ExitCode(); code != c.want || again != c.want || !ok {
				t.Errorf("Wait %d, ExitCode %d %v, want %d", code, again, ok, c.want)
			}
			if err := p.Stop(); err != nil {
				t.Errorf("stopping what has ended: %v", err)
			}
		})
	}
}

func TestProcessStopAndKill(t *testing.T) {
	polite := shell(t, `trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done`)
	eventually(t, "the script is ready", func() bool { return strings.Contains(polite.Logs(), "ready") })
	if _, ok := polite.ExitCode(); ok {
		t.Error("a running process has an exit code")
	}
	if err := polite.Stop(); err != nil {
		t.Fatal(err)
	}
	if code, _ := polite.ExitCode(); code != 7 || !strings.Contains(polite.Logs(), "bye") {
		t.Errorf("code %d, logs %q: SIGTERM was not handled", code, polite.Logs())
	}

	stubborn := shell(t, `trap '' TERM; echo ready; while :; do sleep 0.02; done`)
	eventually(t, "the script is ready", func() bool { return strings.Contains(stubborn.Logs(), "ready") })
	stubborn.Kill()
	if code, ok := stubborn.ExitCode(); code != 137 || !ok || running(t, stubborn.Pid()) {
		t.Errorf("after Kill: code %d %v, running %v", code, ok, running(t, stubborn.Pid()))
	}
}

func TestProcessWaitGivesUpWithTheContext(t *testing.T) {
	p := shell(t, "sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want the context's", err)
	}
}

func TestProcessHasItsOwnGroup(t *testing.T) {
	p := shell(t, "sleep 600")
	group, err := syscall.Getpgid(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if group != p.Pid() {
		t.Errorf("its group is %d, want its own, %d", group, p.Pid())
	}
}

func TestNothingOutlivesTheParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), roleEnv+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if !running(t, child) {
		t.Fatal("the child is not running")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "the child is gone", func() bool { return !running(t, child) })
}

func TestLogsAreBoundedAndTheFileIsWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	p, err := launch(command{
		name: "talker", path: "/bin/sh", logFile: file,
		args: []string{"-c", `i=0; while [ $i -lt 20000 ]; do echo "line $i of what a talkative server prints"; i=$((i+1)); done`},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	logs := p.Logs()
	if len(logs) != 256<<10 || !strings.HasSuffix(logs, "line 19999 of what a talkative server prints\n") {
		t.Errorf("%d bytes are kept, the end is %q", len(logs), logs[len(logs)-60:])
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(whole), "line 0 of") || strings.Count(string(whole), "\n") != 20000 {
		t.Errorf("the file has %d lines", strings.Count(string(whole), "\n"))
	}
}

func TestUntilReportsAnEarlyEndWithItsLog(t *testing.T) {
	p := shell(t, "echo this is why; exit 3")
	err := until(t.Context(), p, "it is ready", func(context.Context) error { return errors.New("not ready") })
	var exited *ExitedError
	if !errors.As(err, &exited) {
		t.Fatalf("error = %v, want an ExitedError", err)
	}
	if exited.Code != 3 || exited.Name != "script" || !strings.Contains(err.Error(), "this is why") {
		t.Errorf("error = %v, code %d", err, exited.Code)
	}
}

func TestUntilSaysWhatItWaitedFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := until(ctx, nil, "the moon is full", func(context.Context) error { return errors.New("half of it is dark") })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the deadline's", err)
	}
	for _, part := range []string{"the moon is full", "half of it is dark"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error = %v, want it to say %q", err, part)
		}
	}
}

func TestWithPortsTriesAgainOnlyWhenAPortWasTaken(t *testing.T) {
	taken := &ExitedError{Logs: "bind: address already in use"}
	broken := &ExitedError{Logs: "bad flag"}
	for _, c := range []struct {
		name   string
		errs   []error
		want   error
		starts int
	}{
		{"at once", []error{nil}, nil, 1},
		{"taken once", []error{taken, nil}, nil, 2},
		{"broken", []error{broken, nil}, broken, 1},
		{"always taken", []error{taken, taken, taken, taken, taken}, taken, startTries},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := map[int]bool{}
			starts := 0
			err := withPorts(2, func(ports []int) error {
				for _, p := range ports {
					if seen[p] {
						t.Errorf("port %d was given twice", p)
					}
					seen[p] = true
				}
				starts++
				return c.errs[starts-1]
			})
			if !errors.Is(err, c.want) || starts != c.starts || len(seen) != 2*c.starts {
				t.Errorf("error %v after %d starts with %d ports, want %v after %d", err, starts, len(seen), c.want, c.starts)
			}
		})
	}
}
