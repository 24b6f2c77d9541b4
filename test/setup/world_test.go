package setup

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/setup"
	"github.com/baokms/baokms/internal/provider/version"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// patience bounds every condition that a test waits for; the machine may be busy.
const patience = 90 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is one control-plane node and the OpenBao that it is set up with.
type node struct {
	transit *stack.Transit
	ca      *stack.CA
	options setup.Options
	report  *command.Report
	// dir is where init wrote to; root has the node's directories.
	dir, root string
	binary    string
}

// setUp starts an OpenBao with nothing in it and runs init for it.
func setUp(t *testing.T, method string) *node {
	t.Helper()
	n := &node{transit: stacktest.Transit(t, stack.TransitOptions{NoSetup: true}), ca: stacktest.CA(t), root: stacktest.Dir(t)}
	n.dir = filepath.Join(n.root, "made")
	bins, err := stack.Find()
	must(t, err)
	n.binary = filepath.Join(bins.Root, "bin", "bao-kms-provider")
	o := setup.Defaults()
	o.Dir = n.dir
	o.Address, o.TLSServerName, o.InstanceID = n.transit.Address(), n.transit.ServerName(), "bao-test"
	o.TransitMount, o.TransitKey = "team/transit-kms", "workload-a"
	o.ProviderName, o.ClusterID, o.TransitMountID, o.KeyLineage = "openbao-kms-workload-a", "workload-a", "transit-test", "007"
	o.AuthMethod = method
	if method == config.MethodJWT {
		o.JWTIssuer, o.JWTAudience, o.JWTSubject = stack.JWTIssuer, stack.JWTAudience, stack.JWTSubject
	} else {
		o.CertCommonName = "control-plane-node"
	}
	o.ReportSocket = true
	o.MetricsAddress, o.HealthAddress = "", "" // ports of the machine are not ours
	n.options = o
	n.report, err = setup.Init(o)
	must(t, err)
	return n
}

// moved replaces the directories of a node by those of the test, and leaves out whom a file is to belong to.
func (n *node) moved(text string) string {
	return strings.NewReplacer(
		"-o root -g openbao-kms ", "",
		"/etc/kubernetes/openbao-kms", filepath.Join(n.root, "enc"),
		"/etc/openbao-kms", filepath.Join(n.root, "etc"),
		"/run/openbao-kms-report", filepath.Join(n.root, "report"),
		"/run/openbao-kms", filepath.Join(n.root, "run"),
		"/var/lib/openbao-kms/state", filepath.Join(n.root, "state"),
		"/var/backups/openbao-kms", filepath.Join(n.root, "backup"),
		"/etc/systemd/system", n.root,
		"/usr/local/bin/bao-kms-provider", n.binary,
	).Replace(text)
}

// step is the one step of the report that has such a command.
func (n *node) step(t *testing.T, command string) []string {
	t.Helper()
	var found [][]string
	for _, s := range n.report.Next {
		if slices.ContainsFunc(s.Commands, func(c string) bool { return strings.Contains(c, command) }) {
			found = append(found, s.Commands)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no step has %q", command)
	}
	return found[0]
}

// run has a shell run commands in init's directory. The programs that are named in no way exist here:
// a call of one is handed to act, with its arguments.
func (n *node) run(t *testing.T, commands []string, programs []string, act func(args []string)) {
	t.Helper()
	const endOfArgument, endOfCall = "\x00", "\x01"
	var script strings.Builder
	for _, p := range programs {
		// On another stream than what the commands print themselves.
		script.WriteString(p + `() { printf '%s\000' ` + p + ` "$@" >&3; printf '\001' >&3; }` + "\n")
	}
	calls := filepath.Join(n.root, "calls")
	n.shell(t, `exec 3>"`+calls+`"; `+script.String(), commands)
	raw, err := os.ReadFile(calls)
	must(t, err)
	for call := range strings.SplitSeq(strings.TrimSuffix(string(raw), endOfCall), endOfCall) {
		if call != "" {
			act(strings.Split(strings.TrimSuffix(call, endOfArgument), endOfArgument))
		}
	}
}

// output has a shell run commands with the real provider's binary, as this user, and returns what they print. systemctl does nothing.
func (n *node) output(t *testing.T, commands []string) string {
	t.Helper()
	return n.shell(t, `export BAO_KMS_PROVIDER_CONFIG="`+n.moved("/etc/openbao-kms/config.yaml")+`"
runuser() { test "$1 $2 $3" = "-u openbao-kms --"; shift 3; "$@"; }
systemctl() { :; }
`, commands)
}

// shell runs commands after a prologue, in init's directory and with the node's directories moved, and returns what they print.
func (n *node) shell(t *testing.T, prologue string, commands []string) string {
	t.Helper()
	script := prologue + "set -eu\n"
	for _, c := range commands {
		script += n.moved(c) + "\n"
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = n.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	return string(out)
}

// bao does what the bao command would, over OpenBao's API.
func (n *node) bao(t *testing.T, args []string) {
	t.Helper()
	post := func(path string, fields map[string]any) {
		t.Helper()
		must(t, n.transit.Root().Do(t.Context(), http.MethodPost, path, fields, nil))
	}
	content := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(n.dir, name))
		must(t, err)
		return string(raw)
	}
	switch what := strings.Join(args[1:3], " "); {
	case what == "secrets enable":
		post("sys/mounts/"+strings.TrimPrefix(args[3], "-path="), map[string]any{"type": args[4]})
	case what == "auth enable":
		post("sys/auth/"+strings.TrimPrefix(args[3], "-path="), map[string]any{"type": args[4]})
	case what == "policy write":
		must(t, n.transit.WritePolicy(t.Context(), args[3], content(args[4])))
	case args[1] == "write":
		fields := map[string]any{}
		for _, field := range args[3:] {
			name, value, _ := strings.Cut(field, "=")
			if file, isFile := strings.CutPrefix(value, "@"); isFile {
				value = content(file)
			}
			fields[name] = value
		}
		post(args[2], fields)
	default:
		t.Fatalf("bao %q", args[1:])
	}
}

// credentials puts beside init's files what its steps say the operator has: the authority of OpenBao's certificate, the node's credential
// and what verifies it.
func (n *node) credentials(t *testing.T) {
	t.Helper()
	put := func(from, name string) {
		t.Helper()
		raw, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(n.dir, name), raw, 0o600))
	}
	put(n.transit.CAFile(), "ca.pem")
	if n.options.AuthMethod == config.MethodCert {
		pair, err := n.ca.Issue("node", stack.CertRequest{CommonName: n.options.CertCommonName, Lifetime: 40 * time.Hour})
		must(t, err)
		put(n.ca.CertFile(), "client-ca.pem")
		put(pair.CertFile, "client.pem")
		put(pair.KeyFile, "client-key.pem")
		return
	}
	public, err := n.transit.Issuer().PublicKeyPEM()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(n.dir, "issuer.pem"), []byte(public), 0o600))
	must(t, n.transit.WriteJWT(filepath.Join(n.dir, "jwt"), nil))
}

// directories makes what tmpfiles.d would.
func (n *node) directories(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(n.dir, "tmpfiles.conf"))
	must(t, err)
	for l := range strings.Lines(string(raw)) {
		fields := strings.Fields(l)
		if len(fields) != 6 || fields[0] != "d" || fields[1] == "/var/lib/openbao-kms" {
			continue
		}
		mode, err := strconv.ParseUint(fields[2], 8, 32)
		must(t, err)
		must(t, os.Mkdir(n.moved(fields[1]), os.FileMode(mode)))
	}
}

// move rewrites init's files for the test's directories and group, which may be root's. The configuration leaves the socket and the state where they are by default.
func (n *node) move(t *testing.T) {
	t.Helper()
	for _, name := range []string{"config.yaml", "encryption-config.yaml", "encryption-config-prepare.yaml"} {
		path := filepath.Join(n.dir, name)
		raw, err := os.ReadFile(path)
		must(t, err)
		text := n.moved(string(raw))
		if name == "config.yaml" {
			text = strings.Replace(text, "\n  socketGroup: \"openbao-kms\"\n", "\n  socketGroup: "+strconv.Itoa(os.Getgid())+"\n", 1)
			text = strings.Replace(text, "\nserver:\n", "\nserver:\n  socketPath: "+n.moved("/run/openbao-kms/kms.sock")+"\n", 1) +
				"\nstate:\n  path: " + n.moved("/var/lib/openbao-kms/state/key-registry.json") + "\n"
		}
		must(t, os.WriteFile(path, []byte(text), 0))
	}
}

// doctor examines the node, with the EncryptionConfiguration when it is asked for, and wants every check to pass but those that may warn
// or be skipped.
func (n *node) doctor(t *testing.T, withEncryption bool, may map[string]command.Result) {
	t.Helper()
	o := diagnose.Options{ConfigPath: n.moved("/etc/openbao-kms/config.yaml"), Getenv: func(string) string { return "" }, Build: version.Info{Version: "v0.0.0-test"}}
	if withEncryption {
		o.EncryptionConfig = n.moved("/etc/kubernetes/openbao-kms/encryption-config.yaml")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := diagnose.Doctor(ctx, o)
	if len(r.Checks) == 0 {
		t.Error("doctor made no check")
	}
	for _, c := range r.Checks {
		if c.Reason == "certificate_expires_soon" {
			continue // the stack's servers have certificates for a day
		}
		if want, named := may[c.ID]; named && c.Result != want || !named && c.Result != command.Pass {
			t.Errorf("%s: %s %s: %s; %s", c.ID, c.Result, c.Reason, c.Message, c.NextStep)
		}
	}
	if r.Provider == nil || r.Provider.Fingerprint != n.report.Provider.Fingerprint {
		t.Errorf("doctor is about %+v, init was about %+v", r.Provider, n.report.Provider)
	}
}

// serve starts the provider; it ends with the test.
func (n *node) serve(t *testing.T) {
	t.Helper()
	p, err := stack.StartProvider(t.Context(), stack.ProviderOptions{
		Binary: n.binary,
		Files: stack.ProviderFiles{
			Config: n.moved("/etc/openbao-kms/config.yaml"), Socket: n.moved("/run/openbao-kms/kms.sock"), Log: filepath.Join(n.root, "log"),
		},
	})
	must(t, err)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stopping the provider: %v", err)
		}
		if t.Failed() {
			t.Logf("the provider's log:\n%s", p.Logs())
		}
	})
}
