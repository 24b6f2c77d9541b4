package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/cli"
	"github.com/baokms/baokms/internal/cli/clitest"
	"github.com/baokms/baokms/internal/goldentest"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/serve"
	"github.com/baokms/baokms/internal/provider/version"
)

// outcome is what a command line left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

// execute runs a command line in this process.
func execute(t *testing.T, env map[string]string, args ...string) outcome {
	t.Helper()
	return executeWith(t, env, func(context.Context, serve.Options) error {
		t.Error("serve was called")
		return nil
	}, args...)
}

func executeWith(t *testing.T, env map[string]string, run func(context.Context, serve.Options) error, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr, getenv: func(k string) string { return env[k] }, serve: run}
	code := a.run(t.Context(), args)
	return outcome{code, stdout.String(), stderr.String()}
}

// configFile is a private copy of testdata/config.yaml, with replacements.
func configFile(t *testing.T, oldnew ...string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(oldnew...).Replace(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigGolden(t *testing.T) {
	path := configFile(t)
	for output, file := range map[string]string{"text": "config.golden.yaml", "json": "config.golden.json"} {
		got := execute(t, nil, "config", "--config", path, "--output", output)
		if got.code != cli.ExitOK || got.stderr != "" {
			t.Fatalf("%s: exit %d, stderr %q", output, got.code, got.stderr)
		}
		goldentest.Check(t, filepath.Join("testdata", file), got.stdout)
	}
	if text, plain := execute(t, nil, "config", "--config", path, "--output", "text"), execute(t, nil, "config", "--config", path); text != plain {
		t.Errorf("text is not the default: %+v", plain)
	}
}

// What config prints as text is a configuration file itself.
func TestConfigTextIsAFile(t *testing.T) {
	text := execute(t, nil, "config", "--config", configFile(t)).stdout
	again := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(again, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, nil, "config", "--config", again); got.stdout != text || got.code != cli.ExitOK {
		t.Errorf("printed again it is\n%s%s", got.stdout, got.stderr)
	}
}

func TestConfigFromTheEnvironment(t *testing.T) {
	env := map[string]string{
		config.EnvConfig: configFile(t), config.EnvLogLevel: "debug", config.EnvMetricsAddress: "127.0.0.1:9001", config.EnvHealthAddress: "127.0.0.1:9002",
	}
	var report struct {
		APIVersion, Kind, Fingerprint string
		Config                        struct {
			Server  struct{ MetricsAddress, HealthAddress string }
			Logging struct{ Level string }
		}
	}
	got := execute(t, env, "config", "--output=json")
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	c := report.Config
	if c.Logging.Level != "debug" || c.Server.MetricsAddress != "127.0.0.1:9001" || c.Server.HealthAddress != "127.0.0.1:9002" {
		t.Errorf("got %+v", c)
	}
	if report.APIVersion != "provider.kms.baokms.io/v1alpha1" || report.Kind != "EffectiveConfiguration" || !strings.HasPrefix(report.Fingerprint, "cfg1.") {
		t.Errorf("got %+v", report)
	}
	// The flag wins over the environment.
	env[config.EnvConfig] = "/nowhere/config.yaml"
	if got := execute(t, env, "config", "--config", configFile(t)); got.code != cli.ExitOK {
		t.Errorf("got %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	good := configFile(t)
	open := configFile(t)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	wrong := configFile(t, "v1alpha1", "v2", "auth/jwt", "jwt", "clusterId: workload-a", "clusterId: ''")
	cases := []struct {
		name   string
		args   []string
		env    map[string]string
		code   int
		stderr []string // one prefix for each line
	}{
		{"nothing", nil, nil, cli.ExitUsage, []string{"bao-kms-provider: name a command", "Run 'bao-kms-provider --help'"}},
		{"an unknown command", []string{"bogus"}, nil, cli.ExitUsage, []string{`bao-kms-provider: unknown command "bogus"`, "Run 'bao-kms-provider --help'"}},
		{"an unknown subcommand", []string{"config", "bogus"}, nil, cli.ExitUsage, []string{`bao-kms-provider: unknown command "bogus" for "bao-kms-provider config"`, "Run 'bao-kms-provider config --help'"}},
		{"an unknown flag", []string{"config", "--bogus"}, nil, cli.ExitUsage, []string{"bao-kms-provider: unknown flag: --bogus", "Run 'bao-kms-provider config --help'"}},
		{"an unknown output", []string{"config", "--output", "xml"}, nil, cli.ExitUsage, []string{`bao-kms-provider: invalid argument "xml" for "--output" flag: write text or json`, "Run"}},
		{"a flag without value", []string{"config", "--config"}, nil, cli.ExitUsage, []string{"bao-kms-provider: flag needs an argument: --config", "Run"}},
		{"policy without a name", []string{"policy"}, nil, cli.ExitUsage, []string{"bao-kms-provider: name the policy to print: openbao", "Run 'bao-kms-provider policy --help'"}},
		{"policy of something else", []string{"policy", "vault"}, nil, cli.ExitUsage, []string{`bao-kms-provider: unknown command "vault"`, "Run"}},
		{"too many arguments", []string{"version", "now"}, nil, cli.ExitUsage, []string{`bao-kms-provider: unknown command "now"`, "Run"}},
		{"an unknown shell", []string{"completion", "csh"}, nil, cli.ExitUsage, []string{`bao-kms-provider: unknown command "csh"`, "Run"}},
		{"no shell", []string{"completion"}, nil, cli.ExitUsage, []string{"bao-kms-provider: name a shell: bash, fish, powershell, zsh", "Run"}},
		{"--dev elsewhere", []string{"config", "--dev"}, nil, cli.ExitUsage, []string{"bao-kms-provider: unknown flag: --dev", "Run"}},
		{"retire without a bound", []string{"retire-versions"}, nil, cli.ExitUsage, []string{"bao-kms-provider: give --before-version", "Run 'bao-kms-provider retire-versions --help'"}},
		{"retire below 1", []string{"retire-versions", "--before-version", "1"}, nil, cli.ExitUsage, []string{"bao-kms-provider: --before-version must be a Transit version from 2 on", "Run"}},
		{"retire below what is no number", []string{"retire-versions", "--before-version", "two"}, nil, cli.ExitUsage, []string{`bao-kms-provider: invalid argument "two" for "--before-version" flag`, "Run"}},
		{"apply without a review", []string{"retire-versions", "--before-version", "2", "--apply"}, nil, cli.ExitUsage, []string{"bao-kms-provider: --apply needs --expected-state-hash", "Run"}},
		{"a review without apply", []string{"restore-versions", "--versions", "1", "--expected-state-hash", "sha256:0"}, nil, cli.ExitUsage, []string{"bao-kms-provider: --expected-state-hash is for --apply", "Run"}},
		{"restore nothing", []string{"restore-versions"}, nil, cli.ExitUsage, []string{"bao-kms-provider: give --versions", "Run"}},
		{"restore no versions", []string{"restore-versions", "--versions", "1,,2"}, nil, cli.ExitUsage, []string{`bao-kms-provider: invalid argument "1,,2" for "--versions" flag: write versions`, "Run"}},
		{"restore version 0", []string{"restore-versions", "--versions", "0"}, nil, cli.ExitUsage, []string{`bao-kms-provider: invalid argument "0"`, "Run"}},

		{"no file", []string{"config", "--config", good + ".missing"}, nil, cli.ExitConfiguration, []string{"bao-kms-provider: configuration file " + good + ".missing: does not exist"}},
		{"no file in the environment", []string{"policy", "openbao"}, map[string]string{config.EnvConfig: "relative.yaml"}, cli.ExitConfiguration, []string{"bao-kms-provider: configuration file relative.yaml: the path is relative"}},
		{"a file whose name moves the cursor", []string{"config", "--config", "/nowhere/\x1b[31m"}, nil, cli.ExitConfiguration, []string{`bao-kms-provider: configuration file /nowhere/\x1b[31m: does not exist`}},
		{"an open file", []string{"config", "--config", open}, nil, cli.ExitConfiguration, []string{"bao-kms-provider: configuration file " + open + ": has mode 0644; run chmod 0640"}},
		{"three problems", []string{"config", "--config", wrong}, nil, cli.ExitConfiguration, []string{
			"bao-kms-provider: configuration file " + wrong + " has 3 problems:", "  line 1: configVersion must be", "  line 12: auth.jwt.mountPath does not", "  line 20: transit.keyIdScope.clusterId is empty"}},
		{"the same for a policy", []string{"policy", "openbao", "--config", wrong}, nil, cli.ExitConfiguration, []string{
			"bao-kms-provider: configuration file " + wrong + " has 3 problems:", "  line 1: ", "  line 12: ", "  line 20: "}},
		{"the same for every command that looks at the node", []string{"rotation-plan", "--config", wrong, "--output", "json"}, nil, cli.ExitConfiguration, []string{
			"bao-kms-provider: configuration file " + wrong + " has 3 problems:", "  line 1: ", "  line 12: ", "  line 20: "}},
		{"a bad override", []string{"config", "--config", good}, map[string]string{config.EnvLogLevel: "loud"}, cli.ExitConfiguration, []string{
			"bao-kms-provider: configuration file " + good + " has a problem:", "  logging.level has a bad value in the environment variable BAO_KMS_PROVIDER_LOG_LEVEL"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := execute(t, c.env, c.args...)
			if got.code != c.code || got.stdout != "" {
				t.Errorf("exit %d, want %d; stdout %q, want none", got.code, c.code, got.stdout)
			}
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			if len(lines) != len(c.stderr) {
				t.Fatalf("stderr has %d lines, want %d:\n%s", len(lines), len(c.stderr), got.stderr)
			}
			for i, want := range c.stderr {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("stderr line %d is %q, want %q", i, lines[i], want)
				}
			}
		})
	}
}

func TestServe(t *testing.T) {
	refused := &config.Error{Problems: []config.Problem{{Field: "a.b", Text: "is wrong", Fix: "write c"}}}
	cases := []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"a clean end", nil, cli.ExitOK, ""},
		{"a failure", errors.New("OpenBao: cannot be reached; check openbao.address"), cli.ExitRuntime, "bao-kms-provider: OpenBao: cannot be reached; check openbao.address\n"},
		{"a refused configuration", refused, cli.ExitConfiguration, "bao-kms-provider: the configuration has a problem:\n  a.b is wrong; write c\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got serve.Options
			end := executeWith(t, nil, func(ctx context.Context, o serve.Options) error {
				if ctx.Err() != nil {
					t.Error("the context has ended already")
				}
				got = o
				return c.err
			}, "serve", "--config", "/a.yaml", "--dev")
			if end != (outcome{c.code, "", c.stderr}) {
				t.Errorf("got %+v, want exit %d and %q", end, c.code, c.stderr)
			}
			if got.ConfigPath != "/a.yaml" || !got.Dev || got.Build != version.Get() || got.Logs == nil {
				t.Errorf("options are %+v", got)
			}
		})
	}
}

// Without flags serve is not in development mode and reads the usual file.
func TestServeDefaults(t *testing.T) {
	for env, want := range map[string]string{"": "/etc/openbao-kms/config.yaml", "/env.yaml": "/env.yaml"} {
		var got serve.Options
		executeWith(t, map[string]string{config.EnvConfig: env}, func(_ context.Context, o serve.Options) error {
			got = o
			return nil
		}, "serve")
		if got.ConfigPath != want || got.Dev {
			t.Errorf("options are %+v, want the path %s", got, want)
		}
	}
}

func TestPolicyOpenBao(t *testing.T) {
	got := execute(t, nil, "policy", "openbao", "--config", configFile(t))
	if got.code != cli.ExitOK || got.stderr != "" {
		t.Fatalf("got %+v", got)
	}
	for _, path := range []string{"transit/prod/keys/kms-workload-a", "transit/prod/config/keys", "transit/prod/encrypt/kms-workload-a", "transit/prod/decrypt/kms-workload-a"} {
		if !strings.Contains(got.stdout, "path \""+path+"\" {") {
			t.Errorf("no rule for %s in\n%s", path, got.stdout)
		}
	}
}

func TestSchema(t *testing.T) {
	got := execute(t, nil, "config", "schema")
	want, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if got != (outcome{cli.ExitOK, string(want), ""}) {
		t.Errorf("got %+v", got)
	}
}

func TestVersion(t *testing.T) {
	v := version.Get()
	got := execute(t, nil, "version")
	want := "version:    " + v.Version + "\ncommit:     " + v.Commit + "\nbuild date: " + v.BuildDate + "\ndirty:      false\ngo version: " + v.GoVersion + "\n"
	if v.Dirty {
		want = strings.Replace(want, "false", "true", 1)
	}
	if got != (outcome{cli.ExitOK, want, ""}) {
		t.Errorf("got %+v, want %q", got, want)
	}
	var report map[string]any
	if err := json.Unmarshal([]byte(execute(t, nil, "version", "--output", "json").stdout), &report); err != nil {
		t.Fatal(err)
	}
	if wantReport := map[string]any{"apiVersion": "provider.kms.baokms.io/v1alpha1", "kind": "Version", "version": v.Version,
		"commit": v.Commit, "buildDate": v.BuildDate, "dirty": v.Dirty, "goVersion": v.GoVersion}; !reflect.DeepEqual(report, wantReport) {
		t.Errorf("got %v, want %v", report, wantReport)
	}
}

// doctor tells a refused configuration as a check among the others.
func TestDoctorWithoutConfiguration(t *testing.T) {
	got := execute(t, nil, "doctor", "--output", "json", "--config", "/nowhere/config.yaml")
	var r command.Report
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if got.code != cli.ExitCheckFailed || got.stderr != "" || r.Kind != command.KindDoctor || r.Result != command.Fail || len(r.Checks) != 21 || r.Checks[0].ID != "config.valid" || r.Checks[0].Result != command.Fail {
		t.Errorf("exit %d, stderr %q, report %+v", got.code, got.stderr, r)
	}
	text := execute(t, nil, "doctor", "--config", "/nowhere/config.yaml")
	if text.code != cli.ExitCheckFailed || text.stderr != "" || !strings.Contains(text.stdout, "FAIL  config.valid") || strings.Contains(text.stdout, "\x1b") {
		t.Errorf("exit %d, stderr %q:\n%s", text.code, text.stderr, text.stdout)
	}
}

// Every command explains itself within 80 columns, with examples that it accepts.
func TestHelp(t *testing.T) {
	clitest.CheckHelp(t, func(stdout *bytes.Buffer) *cobra.Command { return (&app{stdout: stdout, stderr: io.Discard}).root() })
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := execute(t, nil, "completion", shell)
		if got.code != cli.ExitOK || !strings.Contains(got.stdout, program) || got.stderr != "" {
			t.Errorf("%s: exit %d, %d bytes, stderr %q", shell, got.code, len(got.stdout), got.stderr)
		}
	}
}

// full is a standard output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A result that could not be written is a failure, but not one of usage.
func TestUnwritableOutput(t *testing.T) {
	path := configFile(t)
	for _, args := range [][]string{{"version"}, {"version", "--output", "json"}, {"config", "schema"}, {"config", "--config", path}, {"policy", "openbao", "--config", path}} {
		var stderr bytes.Buffer
		a := &app{stdout: full{}, stderr: &stderr, getenv: func(string) string { return "" }}
		if code := a.run(t.Context(), args); code != cli.ExitUnclassified || stderr.String() != "bao-kms-provider: no space left\n" {
			t.Errorf("%v: exit %d, stderr %q", args, code, stderr.String())
		}
	}
}

// What was done before its report could not be written is told as done.
func TestUnwritableReport(t *testing.T) {
	for want, r := range map[string]*command.Report{
		"the plan was applied, and the registry's state hash is sha256:1; only the report could not be written: no space left": {Change: &command.Change{Applied: true, NextStateHash: "sha256:1"}},
		"the report could not be written: no space left":                                                                       {Change: &command.Change{NextStateHash: "sha256:1"}},
		"the files were written; only the report could not be: no space left; remove the directory to run init again":          {Files: []command.File{{Name: "a"}}},
	} {
		a := &app{stdout: full{}, getenv: func(string) string { return "" }}
		for _, output := range []string{cli.Text, cli.JSON} {
			if err := a.conclude(r.Seal(command.KindRetirement), nil, output); err == nil || err.Error() != want {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
}
