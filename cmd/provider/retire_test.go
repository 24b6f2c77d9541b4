package main

import (
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/cli"
)

// An apply is held against what was reviewed, or it is none.
func TestApplyFlags(t *testing.T) {
	hash := "sha256:" + strings.Repeat("0a", 32)
	cases := []struct {
		name string
		args []string
		want string
	}{
		{"no hash", []string{"--apply"}, "--apply needs --expected-state-hash"},
		{"the outcome only", []string{"--apply", "--expected-next-state-hash", hash}, "--apply needs --expected-state-hash"},
		{"an empty hash", []string{"--apply", "--expected-state-hash", ""}, "--apply needs --expected-state-hash"},
		{"an empty outcome", []string{"--apply", "--expected-state-hash", hash, "--expected-next-state-hash", ""}, "--expected-next-state-hash must be"},
		{"a short hash", []string{"--apply", "--expected-state-hash", "sha256:0a"}, "--expected-state-hash must be"},
		{"an upper-case hash", []string{"--apply", "--expected-state-hash", strings.ToUpper(hash)}, "--expected-state-hash must be"},
		{"a bare hash", []string{"--apply", "--expected-state-hash", hash, "--expected-next-state-hash", hash[7:]}, `--expected-next-state-hash must be "sha256:" and 64 lower-case hex digits`},
		{"a hash without apply", []string{"--expected-state-hash", hash}, "--expected-state-hash is for --apply"},
		{"an outcome without apply", []string{"--expected-next-state-hash", hash}, "--expected-next-state-hash is for --apply"},
	}
	for _, c := range cases {
		for _, command := range [][]string{{"retire-versions", "--before-version", "2"}, {"restore-versions", "--versions", "1"}} {
			t.Run(c.name+" "+command[0], func(t *testing.T) {
				got := execute(t, nil, append(command, c.args...)...)
				if got.code != cli.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, "bao-kms-provider: "+c.want) {
					t.Errorf("exit %d, %q, %q; want %q", got.code, got.stdout, got.stderr, c.want)
				}
			})
		}
	}
	// Both hashes are taken: what is refused then is the configuration.
	got := execute(t, nil, "retire-versions", "--before-version", "2", "--apply", "--expected-state-hash", hash, "--expected-next-state-hash", hash,
		"--config", t.TempDir()+"/none.yaml")
	if got.code != cli.ExitConfiguration {
		t.Errorf("exit %d, %q", got.code, got.stderr)
	}
}
