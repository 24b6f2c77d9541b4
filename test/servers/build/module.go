package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// buildArgs are the arguments of `go build` that decide what the binary is; they are part of the stamp.
var buildArgs = []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"}

// module is one server: where its source is, where its binary goes, and what the binary would be built from now.
type module struct {
	name   string
	source string
	binary string
	stamp  string
	want   string
}

// loadModule reads the module of the named server under root. tool names the Go version and the platform.
func loadModule(root, name, tool string) (*module, error) {
	m := &module{
		name:   name,
		source: filepath.Join(root, "test", "servers", name),
		binary: filepath.Join(root, "bin", "servers", name),
		stamp:  filepath.Join(root, "bin", "servers", "."+name+".stamp"),
	}
	if _, err := os.Stat(filepath.Join(m.source, "go.mod")); err != nil || !known(name) {
		return nil, fmt.Errorf("there is no server %q: name %s", name, strings.Join(servers, ", "))
	}
	want, err := fingerprint(m.source, tool)
	if err != nil {
		return nil, fmt.Errorf("%s: reading its module: %w", name, err)
	}
	m.want = want
	return m, nil
}

func known(name string) bool {
	for _, s := range servers {
		if s == name {
			return true
		}
	}
	return false
}

// fingerprint hashes what decides a binary: the module's go.mod, go.sum and Go files, the Go tool and the build's arguments.
func fingerprint(source, tool string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", tool, buildArgs)
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		base := entry.Name()
		if base != "go.mod" && base != "go.sum" && filepath.Ext(base) != ".go" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %d\n", rel, len(content))
		_, err = h.Write(content)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// current says whether the binary is there and was built from what is there now.
func (m *module) current() bool {
	got, err := os.ReadFile(m.stamp)
	if err != nil || strings.TrimSpace(string(got)) != m.want {
		return false
	}
	info, err := os.Stat(m.binary)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// build compiles the server. The binary appears under its name only when it is whole, and its stamp only after it.
func (m *module) build(ctx context.Context, output io.Writer) error {
	temporary := filepath.Join(filepath.Dir(m.binary), fmt.Sprintf(".%s.%d", m.name, os.Getpid()))
	defer func() { _ = os.Remove(temporary) }()
	args := append(append([]string{}, buildArgs...), "-v", "-o", temporary, ".")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.source
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+m.source)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return err
	}
	if err := os.Rename(temporary, m.binary); err != nil {
		return err
	}
	return os.WriteFile(m.stamp, []byte(m.want+"\n"), 0o644)
}

// size is the binary's size in MiB, 0 when it is not there.
func (m *module) size() float64 {
	info, err := os.Stat(m.binary)
	if err != nil {
		return 0
	}
	return float64(info.Size()) / (1 << 20)
}

// goVersion names the Go tool and the platform that it builds for.
func goVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("the go tool is not in PATH: install Go and run it again")
	}
	if err != nil {
		return "", fmt.Errorf("asking the go tool for its version: %w", err)
	}
	return string(bytes.Join(bytes.Fields(out), []byte(" "))), nil
}
