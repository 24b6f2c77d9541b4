package setup

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

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
	for _, name := range []string{"bao", "cd", "install", "usermod", "systemd-sysusers", "systemd-tmpfiles", "runuser", "systemctl", "curl", "cp", "sed", "kubectl", "crictl", "id", "ls", "grep"} {
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
	if got := traced(t, r.Next[2].Commands); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	o.TLSServerName = "bao.internal.example.net"
	dir, r := made(t, o)
	variables := []string{"ADDR", "CACERT", "TLS_SERVER_NAME", "NAMESPACE"}
	wanted := []string{o.Address, filepath.Join(dir, "ca.pem"), o.TLSServerName, o.Namespace}
	commands := r.Next[1].Commands
	for _, v := range variables {
		commands = append(commands, `printf '%s\n' "$BAO_`+v+`"`)
	}
	if got := traced(t, commands); !slices.Equal(got[len(got)-len(wanted):], wanted) {
		t.Errorf("%v became %q, want %q", variables, got, wanted)
	}
}

// TestMountsThatAShellExpands: a tilde stays one.
func TestMountsThatAShellExpands(t *testing.T) {
	o := example()
	o.TransitMount, o.AuthMount = "~root/kms", "auth/~"
	_, r := made(t, o)
	want := []string{
		"bao|secrets|enable|-path=~root/kms|transit",
		"bao|write|~root/kms/config/keys|disable_upsert=true",
		"bao|write|~root/kms/keys/workload-a|type=aes256-gcm96",
	}
	if got := traced(t, r.Next[1].Commands); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got := traced(t, r.Next[2].Commands)
	for i, want := range map[int]string{1: "bao|auth|enable|-path=~|jwt", 2: "bao|write|auth/~/config|"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("got %q, want %q", got[i], want)
		}
	}
}

// TestWhatEncryptsAlreadyIsKept: whoever follows a step or a file to the letter on
// a cluster that encrypts already is told first to keep what decrypts its data.
func TestWhatEncryptsAlreadyIsKept(t *testing.T) {
	for name, o := range variants {
		dir, r := made(t, o)
		told := 0
		for _, s := range r.Next {
			if !slices.ContainsFunc(s.Commands, func(c string) bool {
				return strings.HasPrefix(c, "install") && strings.Contains(c, "encryption-config")
			}) {
				continue
			}
			told++
			place := map[int]string{1: "as the last", 2: "as the first"}[told]
			if !strings.HasPrefix(s.Text, "If kube-apiserver had --encryption-provider-config before") {
				t.Errorf("%s: the step begins with %.70q", name, s.Text)
			}
			inOrder(t, s.Text, "do not replace that file: add this provider to it, "+place, "keep every provider that is there until everything has been rewritten", "on one node after the other")
			if got := traced(t, s.Commands)[0]; got != "grep|-n|encryption-provider-config|/etc/kubernetes/manifests/kube-apiserver.yaml" {
				t.Errorf("%s: the first command is %s", name, got)
			}
		}
		if told != 2 {
			t.Errorf("%s: %d steps install an EncryptionConfiguration, want 2", name, told)
		}
		for file, place := range map[string]string{prepareFile: "as\n# the last,", encryptionFile: "as\n# the first once every API server has it,"} {
			head := read(t, filepath.Join(dir, file))
			if !strings.HasPrefix(head, "# IF kube-apiserver ALREADY HAS --encryption-provider-config, do not replace that\n# file") {
				t.Errorf("%s: %s begins with %.90q", name, file, head)
			}
			inOrder(t, head, "add this provider to it, "+place, "keep every provider that is there until\n# everything has been rewritten")
		}
	}
}

// TestStepTexts: what a step must say, or its commands must do, that no server
// here can show.
func TestStepTexts(t *testing.T) {
	system, pod, cert := example(), asStaticPod(example()), withCertificate(example())
	const sub = "(but for the node's own sub in config.yaml, if the JWTs differ in it)"
	for name, c := range map[string]struct {
		options Options
		step    int
		text    string // of the step
		command string // one of its
	}{
		"a number that is taken":      {pod, 4, "userdel openbao-kms; groupdel openbao-kms, and run init again with a --user-id and a --group-id that are free", "id openbao-kms"},
		"past the node's proxy":       {system, 7, "", "curl -sS --noproxy '*' http://127.0.0.1:8082/ready; echo"},
		"each JWT's own sub":          {system, 9, "with the same files " + sub + " and the node's own credential", ""},
		"certificates":                {cert, 9, "with the same files and the node's own credential", ""},
		"the Secret is taken away":    {system, 13, "The last command takes it away", "kubectl delete secret kms-check"},
		"a file that was there first": {system, 15, "In a file that was there before, do it by hand, and take out the older providers", ""},
	} {
		_, r := made(t, c.options)
		step := r.Next[c.step-1]
		if !strings.Contains(step.Text, c.text) || c.command != "" && !slices.Contains(step.Commands, c.command) {
			t.Errorf("%s: step %d is %+v", name, c.step, step)
		}
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
				if !isASCII(s.Text + strings.Join(s.Commands, "")) {
					t.Errorf("step %d has a character that a terminal may not show, or a reader copy: %q", i+1, s)
				}
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
				"ls -l bao-kms-provider ca.pem ", "disable_upsert=true", "type=aes256-gcm96", "bao policy write", "bao auth enable",
				"systemd-sysusers", "systemd-tmpfiles", configFile, asProvider+"doctor\n",
				o.runner(o.view()).name, "until test -S "+socketPath, "/ready", asProvider+"doctor\n", statePath[len(stateDir)+1:]+".checkpoint", "key-registry.json /", "rotation-plan",
				prepareFile, " "+encryptionFile, "--encryption-config", "crictl stop", "create secret", "kubectl replace", "identity: {}")
		})
	}
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0
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
	wait, plan := false, false // neither needs a listener
	for _, s := range r.Next {
		commands = append(commands, s.Commands...)
	}
	for _, c := range commands {
		wait = wait || strings.Contains(c, "until test -S "+socketPath)
		plan = plan || strings.Contains(c, "rotation-plan")
		if strings.Contains(c, "curl") || strings.HasPrefix(c, "kubectl") && strings.Contains(c, "secret") {
			t.Errorf("%s", c)
		}
	}
	if !wait || !plan {
		t.Errorf("waits for the socket: %v, compares nodes: %v", wait, plan)
	}
	if r.Kind != command.KindInit || r.Result != command.Pass || r.Provider.Name != o.ProviderName || r.Provider.Version != "v1.2.3" {
		t.Errorf("the report is %s, %s, of %+v", r.Kind, r.Result, r.Provider)
	}
}
