package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// stranger is a user that neither owns anything here nor runs the tests.
const stranger = 12345

// edit replaces a text of a file, which must be there.
func edit(from, to string) func(*testing.T, string) {
	return func(t *testing.T, file string) {
		t.Helper()
		content, err := os.ReadFile(file)
		must(t, err)
		if !strings.Contains(string(content), from) {
			t.Fatalf("%q is not in the file", from)
		}
		must(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(content), from, to)), 0o600))
	}
}

func after(steps ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, file string) {
		t.Helper()
		for _, step := range steps {
			step(t, file)
		}
	}
}

// TestConfigurationFile: the file's safety and its content are judged apart, and with a good content everything else is looked at.
func TestConfigurationFile(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, worldOptions{}).transit
	permissions := func(words ...string) []string { return words }
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, file string)
		// words of config.permissions; nil when it passes.
		unsafe []string
		// reason and words of config.valid; "" when it passes.
		reason  string
		invalid []string
		skipped string // the check that is skipped for the other
	}{
		{name: "in order", spoil: mode(0o640)},
		{name: "readable by all", spoil: mode(0o644), unsafe: permissions("has mode 0644", "run chmod 0640 on it")},
		{name: "writable by the group", spoil: mode(0o660), unsafe: permissions("has mode 0660", "chmod 0640")},
		{name: "of another user", spoil: owner(stranger), unsafe: permissions("belongs to user 12345", "runuser -u", "make root its owner")},
		{name: "a link", spoil: link, unsafe: permissions("is a symbolic link", "give the path of the file itself")},
		{name: "a bad mode and a bad field", spoil: after(edit("configVersion: v1alpha1", "configVersion: v2"), mode(0o644)),
			unsafe: permissions("0644"), reason: "config_invalid", invalid: []string{"configVersion", "write"}},
		{name: "one problem", spoil: edit("method: jwt", "method: ldap"), reason: "config_invalid", invalid: []string{"line ", "auth.method", "jwt"}},
		{name: "many problems", spoil: edit(": ", ": [x] #"), reason: "config_invalid", invalid: []string{" problems: line 3: ", "and ", " more", "bao-kms-provider config"}},
		{name: "no YAML", spoil: content("a: [", 0o600), reason: "config_invalid", invalid: []string{"is not valid YAML"}},
		{name: "empty", spoil: content("", 0o600), reason: "config_invalid", invalid: []string{"is empty"}},
		{name: "missing", spoil: remove, reason: "config_missing", invalid: []string{"there is no configuration file at the path in --config", "give the path with --config or $BAO_KMS_PROVIDER_CONFIG"}, skipped: "config.permissions"},
		{name: "a directory", spoil: after(remove, func(t *testing.T, file string) { t.Helper(); must(t, os.Mkdir(file, 0o700)) }),
			reason: "config_unreadable", invalid: []string{"is not a regular file"}, skipped: "config.permissions"},
		{name: "too large", spoil: content(strings.Repeat("#", 1<<20), 0o600), reason: "config_unreadable", invalid: []string{"right file"}, skipped: "config.permissions"},
		{name: "a link to nothing", spoil: after(link, func(t *testing.T, file string) { t.Helper(); remove(t, file+".real") }), reason: "config_missing", skipped: "config.permissions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{})
			c.spoil(t, w.files.Config)
			r := examine(t, w)
			var failing []string
			if c.reason != "" {
				failing = append(failing, "config.valid")
				expect(t, r, "config.valid", command.Fail, c.reason, c.invalid...)
				skippedBecause(t, r, "auth.login", "config.valid")
				if r.Provider != nil {
					t.Errorf("the report is about %+v without a valid configuration", r.Provider)
				}
			} else {
				passes(t, r, "config.valid", "auth.login", "transit.roundtrip", "registry.state")
			}
			switch {
			case c.skipped != "":
				skippedBecause(t, r, c.skipped, "config.valid")
			case c.unsafe != nil:
				failing = append(failing, "config.permissions")
				expect(t, r, "config.permissions", command.Fail, "config_unsafe", c.unsafe...)
			default:
				passes(t, r, "config.permissions")
			}
			onlyFails(t, r, failing...)
		})
	}
}

// TestDirectoriesOfTrustedFiles: who can replace a file is told, and everything else is looked at all the same.
func TestDirectoriesOfTrustedFiles(t *testing.T) {
	t.Parallel()
	shared := newWorld(t, worldOptions{}).transit
	for _, c := range []struct {
		name   string
		mode   os.FileMode
		result command.Result
		words  []string
	}{
		{"everybody", 0o777, command.Fail, []string{"the directory of the configuration file, openbao.caCertFile and auth.jwt.jwtFile can be written by everybody (mode 0777)", "run chmod 0755"}},
		{"its group", 0o770, command.Warn, []string{"can be written by its group (mode 0770)", "run chmod 0750"}},
		{"everybody, but only what is theirs", 0o777 | os.ModeSticky, command.Pass, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, shared, worldOptions{})
			must(t, os.Chown(w.files.Dir, -1, 12346))
			mode(c.mode)(t, w.files.Dir)
			r := examine(t, w)
			passes(t, r, "config.valid", "auth.login", "transit.roundtrip")
			if c.result == command.Pass {
				passes(t, r, "config.permissions")
				onlyFails(t, r)
				return
			}
			expect(t, r, "config.permissions", c.result, "directory_writable", c.words...)
			onlyFails(t, r, "config.permissions")
		})
	}
}

// TestTheReportNamesNoConfigurationValue: what is in a refused field is not repeated.
func TestTheReportNamesNoConfigurationValue(t *testing.T) {
	t.Parallel()
	w := newNode(t, newWorld(t, worldOptions{}).transit, worldOptions{fields: map[string]any{"auth.method": "hvs-a-token-in-a-wrong-field"}})
	c := checkOf(t, examine(t, w), "config.valid")
	if c.Result != command.Fail || strings.Contains(told(c), "hvs-a-token") {
		t.Errorf("config.valid is %s: %s", c.Result, told(c))
	}
}

// TestEncryptionConfiguration: what doctor passes, a real kube-apiserver starts with and is ready; what it says is refused, is refused.
func TestEncryptionConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	file := filepath.Join(w.files.Dir, "encryption.yaml")
	write := func(c stack.EncryptionConfig) {
		t.Helper()
		c.Provider, c.Socket = stack.ProviderName, w.files.Socket
		must(t, c.Write(file))
	}
	endpoint := "unix://" + w.files.Socket

	t.Run("accepted", func(t *testing.T) {
		write(stack.EncryptionConfig{Resources: []string{"configmaps", "secrets"}, Identity: true})
		r := examine(t, w, withEncryptionConfig(file))
		passes(t, r, "encryptionconfig.provider", "socket.kms", "status.consistency")
		expect(t, r, "encryptionconfig.identity", command.Warn, "identity_fallback", "plaintext: configmaps, secrets")
		onlyFails(t, r, "encryptionconfig.identity")
		write(stack.EncryptionConfig{Resources: []string{"*."}})
		r = examine(t, w, withEncryptionConfig(file))
		passes(t, r, "encryptionconfig.provider", "encryptionconfig.identity")
		onlyFails(t, r)
		stacktest.APIServer(t, stack.APIServerOptions{EncryptionConfig: file}) // until /readyz, which asks the provider
	})
	t.Run("accepted in unusual words", func(t *testing.T) {
		entry := "{apiVersion: v2, name: 2026-11-30, endpoint: '" + endpoint + "', timeout: 3s}"
		for _, c := range []struct{ name, text, reason, words string }{
			{"older form, a date, more documents", "apiVersion: v1\nkind: EncryptionConfig\nresources:\n- resources: [secrets]\n  providers:\n  - kms: " + entry + "\n---\na: [\n",
				"name_differs", "also: the file holds more than one YAML document: kube-apiserver takes the first"},
			{"an anchor and a merge key", "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n" +
				"  - kms: {<<: &k {apiVersion: v2, endpoint: '" + endpoint + "', timeout: 3s}, name: one}\n  - kms: {<<: *k, name: another}\n",
				"encryption_config_not_judged", "uses a YAML merge key"},
		} {
			t.Run(c.name, func(t *testing.T) {
				must(t, os.WriteFile(file, []byte(c.text), 0o600))
				r := examine(t, w, withEncryptionConfig(file))
				expect(t, r, "encryptionconfig.provider", command.Warn, c.reason, c.words)
				onlyFails(t, r, "encryptionconfig.provider")
				stacktest.APIServer(t, stack.APIServerOptions{EncryptionConfig: file})
			})
		}
	})
	t.Run("refused", func(t *testing.T) {
		write(stack.EncryptionConfig{})
		for _, c := range []struct {
			name, from, to, reason, words string
			starts                        bool // the API server finds out later, or never
			warns                         bool // it depends on the API server's flags
		}{
			{"another plugin's v1", "- kms:", "- kms: {name: older, endpoint: 'unix:///run/elsewhere.sock'}\n  - kms:", "kms_v1", "--feature-gates=KMSv1=true", false, true},
			{"another API version", "apiVersion: v2", "apiVersion: v3", "encryption_config_invalid", "neither v1 nor v2", false, false},
			{"v1", "apiVersion: v2", "apiVersion: v1", "kms_v1", "does not speak", false, false},
			{"a field in another case", "endpoint:", "endPoint:", "encryption_config_invalid", "differs from endpoint in upper and lower case", false, false},
			{"white space before the endpoint", endpoint, "' " + endpoint + "'", "endpoint_differs", "white space", false, false},
			{"a slash", endpoint, endpoint + "/", "endpoint_differs", "ends with a slash", true, false},
			{"two slashes", "unix:///", "unix://", "endpoint_differs", "two slashes", true, false},
			{"an abstract socket", "unix:///", "unix:///@", "endpoint_differs", "abstract socket", true, false},
			{"another file", "kms.sock", "kmsplugin.sock", "endpoint_differs", "another file in the directory", true, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				spoiled := filepath.Join(w.files.Dir, "spoiled.yaml")
				text, err := os.ReadFile(file)
				must(t, err)
				must(t, os.WriteFile(spoiled, text, 0o600))
				edit(c.from, c.to)(t, spoiled)
				r := examine(t, w, withEncryptionConfig(spoiled))
				result := command.Fail
				if c.warns {
					result = command.Warn
				}
				expect(t, r, "encryptionconfig.provider", result, c.reason, c.words)
				onlyFails(t, r, "encryptionconfig.provider")
				if c.starts {
					return
				}
				if server, err := stack.StartAPIServer(t.Context(), stack.APIServerOptions{Dir: stacktest.Dir(t), Etcd: stacktest.Etcd(t, stack.EtcdOptions{}), EncryptionConfig: spoiled}); err == nil {
					t.Error("a real API server starts with it")
					must(t, server.Stop())
				}
			})
		}
	})
}
