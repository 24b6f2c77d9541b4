package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a server may take to end after SIGTERM before it is killed. They take a second; the machine may be busy.
const stopGrace = 45 * time.Second

// command is what to run.
type command struct {
	// name is what errors call it.
	name string
	path string
	args []string
	// env is added to the environment of this process.
	env []string
	dir string
	// logFile, when set, gets everything that the process prints, from the start; Logs holds the end of it only.
	logFile string
}

// Process is one running server. It is in a process group of its own, so that Ctrl-C at a terminal ends the program that started it and
// not it; when that program dies, it is killed. All methods are safe for concurrent use.
type Process struct {
	name string
	cmd  *exec.Cmd
	out  *tail
	// done is closed by the goroutine that waits for the process, after code is set. It ends with the process.
	done chan struct{}
	code int
}

// ExitedError says that a process ended when it should have gone on.
type ExitedError struct {
	// Name is which process.
	Name string
	// Code is its exit code, or 128 and the signal's number when a signal ended it.
	Code int
	// Logs is the end of what it printed.
	Logs string
}

func (e *ExitedError) Error() string {
	return fmt.Sprintf("%s ended with code %d; the end of its log:\n%s", e.Name, e.Code, lastLines(e.Logs, 25))
}

// launcher runs functions on one OS thread that never ends. The kernel sends a child its parent-death signal when the *thread* that made
// it ends, so children are made on this one; its goroutine lives as long as the program.
var launcher = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// launch starts a process.
func launch(c command) (*Process, error) {
	p := &Process{name: c.name, out: newTail(256 << 10), done: make(chan struct{})}
	var output io.Writer = p.out
	var file *os.File
	if c.logFile != "" {
		f, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("%s: opening its log file: %w", c.name, err)
		}
		file, output = f, io.MultiWriter(p.out, f)
	}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir = c.dir
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = ownGroup()
	p.cmd.WaitDelay = 2 * time.Second
	started := make(chan error, 1)
	launcher() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		if file != nil {
			_ = file.Close()
		}
		return nil, fmt.Errorf("%s: starting it: %w", c.name, err)
	}
	go p.wait(file)
	return p, nil
}

// wait reaps the process; it owns code until done is closed.
func (p *Process) wait(file *os.File) {
	_ = p.cmd.Wait()
	p.code = -1
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		p.code = status.ExitStatus()
		if status.Signaled() {
			p.code = 128 + int(status.Signal())
		}
	}
	if file != nil {
		_ = file.Close()
	}
	close(p.done)
}

// Pid is the process's id; it means nothing after the process ended.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Logs is the end of what the process printed, at most 256 KiB, standard output and error in the order in which they came.
func (p *Process) Logs() string { return p.out.String() }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the exit code, or 128 and the signal's number when a signal ended it. ok is false while it runs.
func (p *Process) ExitCode() (code int, ok bool) {
	select {
	case <-p.done:
		return p.code, true
	default:
		return 0, false
	}
}

// Wait waits for the process to end, and returns its exit code as ExitCode does. The only error is the context's.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.code, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s is still running: %w", p.name, ctx.Err())
	}
}

// Signal sends a signal to the process. A process that has ended is no error.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: sending %v: %w", p.name, sig, err)
	}
	return nil
}

// Stop ends the process with SIGTERM and waits for it. When it has not ended in 45 seconds it is killed, and Stop says so as an error.
// Stopping a process that has ended is no error.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM and was killed", p.name, stopGrace)
	}
}

// Kill ends the process with SIGKILL and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *Process) exited() *ExitedError {
	return &ExitedError{Name: p.name, Code: p.code, Logs: p.Logs()}
}
