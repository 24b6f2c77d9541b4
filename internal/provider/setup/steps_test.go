package setup

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/baokms/baokms/internal/provider/command"
)

// TestShell: a real shell takes a quoted text as the one word that it is.
func TestShell(t *testing.T) {
	cases := append([]string{"-n", "a b", "it's", "''", "a\\", "$(exit 9)", "`exit 9`", "a;b", "*", "~", "a\nb", "!x"}, nasty...)
	rapid.Check(t, func(t *rapid.T) { cases = append(cases, rapid.String().Draw(t, "text")) })
	var script strings.Builder
	var want []string
	for _, c := range cases {
		if strings.ContainsRune(c, 0) {
			continue // no argument of any program can hold it
		}
		script.WriteString("printf '%s\\000' " + shell(c) + "\n")
		want = append(want, c)
	}
	cmd := exec.Command("sh")
	cmd.Stdin = strings.NewReader(script.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(got) != len(want) {
		t.Fatalf("the shell printed %d words, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%q became %q", want[i], got[i])
		}
	}
}

// traced runs a step's commands in a real shell in which every program only
// prints its arguments, and returns the command lines that it saw.
func traced(t *testing.T, commands []string) []string {
	t.Helper()
	var script strings.Builder
	for _, name := range []string{"bao", "cd", "install", "usermod", "systemd-sysusers", "systemd-tmpfiles", "runuser", "systemctl", "curl", "cp", "sed", "kubectl", "crictl", "id", "ls"} {
		script.WriteString(name + "() { printf '%s' " + name + "; printf '|%s' \"$@\"; printf '\\n'; }\n")
	}
	script.WriteString("set -eu\n" + strings.Join(commands, "\n") + "\n")
	cmd := exec.Command("bash")
	cmd.Stdin = strings.NewReader(script.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, strings.Join(commands, "\n"))
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestOpenBaoCommands: what a shell makes of them, with values that it could
// take apart.
func TestOpenBaoCommands(t *testing.T) {
	o := example()
	o.Namespace, o.JWTSubject, o.JWTIssuer = "team a/it's", "repo:x/y $(id)", "https://issuer.example.net/a b"
	_, r := made(t, o)
	want := []string{
		"bao|policy|write|openbao-kms-workload-a|policy.hcl",
		"bao|auth|enable|-path=jwt-kms|jwt",
		"bao|write|auth/jwt-kms/config|bound_issuer=https://issuer.example.net/a b|jwt_validation_pubkeys=@issuer.pem",
		"bao|write|auth/jwt-kms/role/openbao-kms-workload-a|role_type=jwt|user_claim=sub|bound_audiences=openbao|bound_subject=repo:x/y $(id)|token_policies=openbao-kms-workload-a|token_ttl=1h|token_max_ttl=1h",
	}
	if got := traced(t, r.Next[1].Commands); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got := traced(t, append(r.Next[0].Commands, `printf '%s\n' "$BAO_NAMESPACE"`))
	if last := got[len(got)-1]; last != o.Namespace {
		t.Errorf("the namespace became %q", last)
	}
}

// TestSteps: each says what to do in one paragraph, its commands are a shell's,
// and every file that was written is used by one of them.
func TestSteps(t *testing.T) {
	for name, o := range variants {
		t.Run(name, func(t *testing.T) {
			_, r := made(t, o)
			var all strings.Builder
			for i, s := range r.Next {
				if s.Text == "" || strings.HasSuffix(s.Text, ".") || strings.Contains(s.Text, "\n") || len(s.Commands) == 0 {
					t.Errorf("step %d: %q with %d commands", i+1, s.Text, len(s.Commands))
				}
				syntax := exec.Command("bash", "-n")
				syntax.Stdin = strings.NewReader(strings.Join(s.Commands, "\n") + "\n")
				if out, err := syntax.CombinedOutput(); err != nil {
					t.Errorf("step %d: %s", i+1, out)
				}
				all.WriteString(strings.Join(s.Commands, "\n") + "\n")
			}
			for _, f := range r.Files {
				if !strings.Contains(all.String(), f.Name) || !strings.Contains(all.String(), f.Target) {
					t.Errorf("no step uses %s", f.Name)
				}
			}
			inOrder(t, all.String(),
				"disable_upsert=true", "type=aes256-gcm96", "bao policy write", "bao auth enable",
				"systemd-sysusers", "systemd-tmpfiles", configFile, asProvider+"doctor\n",
				o.runner(o.view()).name, "/ready", asProvider+"doctor\n", statePath[len(stateDir)+1:]+".checkpoint", "key-registry.json /",
				prepareFile, " "+encryptionFile, "--encryption-config", "crictl stop", "create secret", "kubectl replace", "identity: {}")
		})
	}
}

// inOrder wants each text after the one before it.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		_, rest, found := strings.Cut(text, p)
		if !found {
			t.Fatalf("%q is not there, or too early", p)
		}
		text = rest
	}
}

func TestWithoutSecretsOrListeners(t *testing.T) {
	o := example()
	o.Resources, o.MetricsAddress, o.HealthAddress = []string{"configmaps"}, "", "127.0.0.1:0"
	_, r := made(t, o)
	var commands []string
	for _, s := range r.Next {
		commands = append(commands, s.Commands...)
	}
	for _, c := range commands {
		if strings.Contains(c, "curl") || strings.HasPrefix(c, "kubectl") && strings.Contains(c, "secret") {
			t.Errorf("%s", c)
		}
	}
	if r.Kind != command.KindInit || r.Result != command.Pass || r.Provider.Name != o.ProviderName || r.Provider.Version != "v1.2.3" {
		t.Errorf("the report is %s, %s, of %+v", r.Kind, r.Result, r.Provider)
	}
}
