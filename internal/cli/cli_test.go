package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/baokms/baokms/internal/provider/version"
)

// ended is what a command line left behind.
type ended struct {
	code           int
	stdout, stderr string
}

// execute runs a command line of a program that has the command do, which ends with
// result.
func execute(t *testing.T, result error, explain Explain, args ...string) ended {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "prog", Short: "A program", Long: "prog is a program."}
	do := &cobra.Command{Use: "do", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return result }}
	ChoiceFlag(do, "colour", "a colour", "red", "green", "blue")
	root.AddCommand(do, VersionCommand("prog", "prog.example/v1"))
	Dress(root, &stdout, &stderr)
	code := Run(t.Context(), root, args, explain)
	return ended{code, stdout.String(), stderr.String()}
}

var errOwn = errors.New("own")

func explainOwn(err error) (int, []string) {
	if errors.Is(err, errOwn) {
		return ExitConfiguration, []string{"the file has a problem:", "  a.b is wrong"}
	}
	return 0, nil
}

func TestRun(t *testing.T) {
	const doHint, rootHint = "Run 'prog do --help' for what it takes.\n", "Run 'prog --help' for what it takes.\n"
	cases := []struct {
		name    string
		result  error
		explain Explain
		args    []string
		code    int
		stderr  string
	}{
		{"success", nil, nil, []string{"do"}, ExitOK, ""},
		{"a failure that nobody classified", errors.New("broken"), nil, []string{"do"}, ExitUnclassified, "prog: broken\n"},
		{"a chosen code", Exit(ExitRuntime, errors.New("no server")), nil, []string{"do"}, ExitRuntime, "prog: no server\n"},
		{"a chosen code around which more is said", fmt.Errorf("starting: %w", Exit(ExitRuntime, errors.New("no server"))), nil, []string{"do"}, ExitRuntime, "prog: starting: no server\n"},
		{"a chosen code without an error", Exit(ExitRuntime, nil), nil, []string{"do"}, ExitOK, ""},
		{"all was said already", Told(ExitCheckFailed), nil, []string{"do"}, ExitCheckFailed, ""},
		{"several lines", errors.New("one\ntwo"), nil, []string{"do"}, ExitUnclassified, "prog: one\ntwo\n"},
		{"a text that moves the cursor", errors.New("a\x1b[2Jb"), nil, []string{"do"}, ExitUnclassified, "prog: a\\x1b[2Jb\n"},
		{"the program's own error", fmt.Errorf("loading: %w", errOwn), explainOwn, []string{"do"}, ExitConfiguration, "prog: the file has a problem:\n  a.b is wrong\n"},
		{"its own, with a chosen code", Exit(ExitRuntime, errOwn), explainOwn, []string{"do"}, ExitRuntime, "prog: the file has a problem:\n  a.b is wrong\n"},
		{"not its own", errors.New("broken"), explainOwn, []string{"do"}, ExitUnclassified, "prog: broken\n"},
		{"a command's own complaint", Usage("give more"), nil, []string{"do"}, ExitUsage, "prog: give more\n" + doHint},
		{"no command", nil, nil, nil, ExitUsage, "prog: name a command\n" + rootHint},
		{"an unknown command", nil, nil, []string{"dance"}, ExitUsage, "prog: unknown command \"dance\" for \"prog\"\n" + rootHint},
		{"an unknown flag", nil, nil, []string{"do", "--dance"}, ExitUsage, "prog: unknown flag: --dance\n" + doHint},
		{"an argument too many", nil, nil, []string{"do", "it"}, ExitUsage, "prog: unknown command \"it\" for \"prog do\"\n" + doHint},
		{"no choice", nil, nil, []string{"do", "--colour", "pink"}, ExitUsage, "prog: invalid argument \"pink\" for \"--colour\" flag: write red or green or blue\n" + doHint},
		{"no shell", nil, nil, []string{"completion"}, ExitUsage, "prog: name a shell: bash, fish, powershell, zsh\nRun 'prog completion --help' for what it takes.\n"},
		{"an unknown shell", nil, nil, []string{"completion", "csh"}, ExitUsage, "prog: unknown command \"csh\" for \"prog completion\"\nRun 'prog completion --help' for what it takes.\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := execute(t, c.result, c.explain, c.args...); got != (ended{c.code, "", c.stderr}) {
				t.Errorf("got %+v, want exit %d and %q", got, c.code, c.stderr)
			}
		})
	}
}

func TestChosen(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("a"), false},
		{Exit(ExitRuntime, errors.New("a")), true},
		{fmt.Errorf("b: %w", Usage("a")), true},
		{errors.Join(errors.New("a"), Told(ExitCheckFailed)), true},
	} {
		if got := Chosen(c.err); got != c.want {
			t.Errorf("%v: %t, want %t", c.err, got, c.want)
		}
	}
	if got := Told(ExitCheckFailed).Error(); got != "exit code 4" {
		t.Errorf("it says %q", got)
	}
}

// Flags are explained, and completed, by their choices.
func TestChoiceFlag(t *testing.T) {
	help := execute(t, nil, nil, "do", "--help")
	if want := "      --colour red|green|blue   a colour (default red)\n"; help.code != ExitOK || !strings.Contains(help.stdout, want) {
		t.Errorf("exit %d, no %q in\n%s", help.code, want, help.stdout)
	}
	offered := execute(t, nil, nil, "__complete", "do", "--colour", "")
	if !strings.HasPrefix(offered.stdout, "red\ngreen\nblue\n:4\n") {
		t.Errorf("it completes to %q", offered.stdout)
	}
	cmd := &cobra.Command{Use: "c"}
	value := ChoiceFlag(cmd, "colour", "a colour", "red", "green")
	if *value != "red" {
		t.Errorf("the default is %q", *value)
	}
	if err := cmd.ParseFlags([]string{"--colour=green"}); err != nil || *value != "green" {
		t.Errorf("it is %q, %v", *value, err)
	}
	if err := cmd.ParseFlags([]string{"--colour="}); err == nil || *value != "green" {
		t.Errorf("an empty one is taken: %q, %v", *value, err)
	}
}

func TestVersionCommand(t *testing.T) {
	v := version.Get()
	want := fmt.Sprintf("version:    %s\ncommit:     %s\nbuild date: %s\ndirty:      %t\ngo version: %s\n", v.Version, v.Commit, v.BuildDate, v.Dirty, v.GoVersion)
	if got := execute(t, nil, nil, "version"); got != (ended{ExitOK, want, ""}) {
		t.Errorf("got %+v, want %q", got, want)
	}
	got := execute(t, nil, nil, "version", "--output", "json")
	var r struct{ APIVersion, Kind, Version, GoVersion string }
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if r.APIVersion != "prog.example/v1" || r.Kind != "Version" || r.Version != v.Version || r.GoVersion != v.GoVersion {
		t.Errorf("got %+v", r)
	}
	if !strings.HasSuffix(got.stdout, "\n}\n") {
		t.Errorf("the end is %q", got.stdout)
	}
}

func TestCompletionExample(t *testing.T) {
	got := execute(t, nil, nil, "completion", "--help")
	if want := "  prog completion bash > /etc/bash_completion.d/prog\n"; got.code != ExitOK || !strings.Contains(got.stdout, want) {
		t.Errorf("exit %d, no %q in\n%s", got.code, want, got.stdout)
	}
}
