package stack_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

func TestProviderConfigIsWhatTheProductAccepts(t *testing.T) {
	t.Parallel()
	s := stacktest.Transit(t, stack.TransitOptions{})
	files, err := stack.WriteProviderConfig(stacktest.Dir(t), s, stack.ProviderConfig{
		Fields: map[string]any{"status.probeInterval": "7s", "server.reportSocketPath": nil, "logging.level": "debug"},
		Claims: map[string]any{"sub": "somebody"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(files.Config)
	if err != nil {
		t.Fatalf("the product refuses the configuration: %v", err)
	}
	for _, field := range []struct {
		name      string
		got, want any
	}{
		{"openbao.address", c.OpenBao.Address, s.Address()},
		{"server.socketPath", c.Server.SocketPath, files.Socket},
		{"server.reportSocketPath", c.Server.ReportSocketPath, ""},
		{"state.path", c.State.Path, files.State},
		{"logging.level", string(c.Logging.Level), "debug"},
		{"transit.keyName", c.Transit.KeyName, s.Key()},
	} {
		if field.got != field.want {
			t.Errorf("%s = %v, want %v", field.name, field.got, field.want)
		}
	}
	for path, mode := range map[string]os.FileMode{
		files.Config: 0o600, files.JWT: 0o600,
		filepath.Dir(files.Socket): os.ModeDir | 0o700, filepath.Dir(files.State): os.ModeDir | 0o700,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, %v, want %v", filepath.Base(path), info.Mode(), err, mode)
		}
	}
	jwt, err := os.ReadFile(files.JWT)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LoginJWT(t.Context(), strings.TrimSpace(string(jwt))); err == nil {
		t.Error("the JWT does not have the claim that was asked for: it logs in as somebody else")
	}
}

func TestProviderConfigRefusesADirectoryTooLongForASocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(stacktest.Dir(t), strings.Repeat("d", 100))
	_, err := stack.WriteProviderConfig(dir, nil, stack.ProviderConfig{})
	if err == nil || !strings.Contains(err.Error(), "107 are allowed") {
		t.Errorf("error = %v, want one that gives the limit", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}

// TestProviderLife runs this test binary in the provider's place, so that it says something when the product is broken too.
func TestProviderLife(t *testing.T) {
	t.Parallel()
	s := stacktest.Transit(t, stack.TransitOptions{NoAudit: true})
	files, err := stack.WriteProviderConfig(stacktest.Dir(t), s, stack.ProviderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	o := stack.ProviderOptions{Binary: os.Args[0], Files: files, Env: []string{"STACK_TEST_ROLE=provider"}}
	p, err := stack.StartProvider(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", files.Socket)
	if err != nil {
		t.Fatalf("its socket: %v", err)
	}
	_ = conn.Close()

	// The socket that a killed process leaves behind must not count as a provider that serves.
	p.Kill()
	if code, ok := p.ExitCode(); code != 137 || !ok {
		t.Errorf("after Kill: code %d, %v", code, ok)
	}
	var exited *stack.ExitedError
	if err := p.Start(t.Context()); !errors.As(err, &exited) || exited.Code != 5 || !strings.Contains(exited.Logs, "address already in use") {
		t.Errorf("starting over a socket that is in the way: %v, want the provider's own end", err)
	}
	if err := os.Remove(files.Socket); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := p.Pid()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)

	o.Files.Config = filepath.Join(files.Dir, "missing.yaml")
	_, err = stack.StartProvider(t.Context(), o)
	if !errors.As(err, &exited) || exited.Code != 3 || !strings.Contains(err.Error(), "no usable configuration") {
		t.Errorf("starting without a configuration: %v, want exit code 3 and the log", err)
	}
	o.NoWait = true
	p, err = stack.StartProvider(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(t.Context()); err != nil || code != 3 {
		t.Errorf("Wait = %d, %v", code, err)
	}
}

func readCertificate(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatalf("%s is not PEM", filepath.Base(file))
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificateLifetimes(t *testing.T) {
	t.Parallel()
	ca := stacktest.CA(t)
	for _, c := range []struct {
		name     string
		lifetime time.Duration
	}{
		{"default", 0}, {"short", time.Minute}, {"expired", -time.Minute},
	} {
		pair, err := ca.Issue(c.name, stack.CertRequest{CommonName: c.name, Lifetime: c.lifetime})
		if err != nil {
			t.Fatal(err)
		}
		want := c.lifetime
		if want == 0 {
			want = 24 * time.Hour
		}
		cert := readCertificate(t, pair.CertFile)
		if left := time.Until(cert.NotAfter); left > want || left < want-time.Minute {
			t.Errorf("%s: valid for %v, want about %v", c.name, left, want)
		}
		if !cert.NotBefore.Before(cert.NotAfter) || cert.Subject.CommonName != c.name {
			t.Errorf("%s: from %v to %v for %q", c.name, cert.NotBefore, cert.NotAfter, cert.Subject.CommonName)
		}
		for _, file := range []string{pair.CertFile, pair.KeyFile} {
			if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
			}
		}
	}
}
