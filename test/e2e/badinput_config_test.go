package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/test/stack"
)

// wrong is a configuration with one field that is wrong.
func wrong(name, field string, value any, words ...string) badCase {
	return badCase{
		name: name, fields: map[string]any{field: value}, code: exitConfiguration, problems: 1, alsoConfig: true,
		words: append([]string{"config.yaml", field}, words...),
	}
}

func badConfigurations() []badCase {
	return []badCase{
		wrong("unknown field", "server.socketPaht", "/run/x", "line", "not a known field", "socketPath"),
		wrong("unknown section", "kubernetes", map[string]any{"namespace": "x"}, "not a known field"),
		wrong("missing field", "openbao.instanceId", nil, "missing", "add it"),
		wrong("missing version", "configVersion", nil, "missing"),
		wrong("another version", "configVersion", "v9", "v1alpha1"),
		wrong("text for a number", "server.maxConcurrentEncrypt", "many", "whole number", "from 1 to 1024"),
		wrong("number out of range", "server.maxConcurrentDecrypt", 1025, "above 1024"),
		wrong("zero", "server.maxConcurrentStatus", 0, "below 1"),
		wrong("text for a truth value", "rotation.rejectVersionRollback", "yes", "true or false"),
		wrong("number for text", "openbao.instanceId", 17, "quotes"),
		wrong("list for a value", "transit.keyName", []string{"a", "b"}, "a list"),
		wrong("value for a section", "logging", "loud", "group of fields"),
		wrong("duration without unit", "openbao.timeout", 2, "unit"),
		wrong("duration as text without unit", "status.probeInterval", "30", "unit"),
		wrong("negative duration", "bootstrap.retryInterval", "-1s"),
		wrong("unknown word", "logging.level", "loud", "debug, info, warn, error"),
		wrong("plain HTTP", "openbao.address", "http://127.0.0.1:8200", "not encrypted", "https://", "--dev"),
		wrong("plain HTTP to another host", "openbao.address", "http://openbao.example.com:8200", "not encrypted"),
		wrong("address with credentials", "openbao.address", "https://user:word@127.0.0.1:8200", "must never be in a configuration"),
		wrong("address with a path", "openbao.address", "https://127.0.0.1:8200/v1", "holds a path"),
		wrong("CA path not absolute", "openbao.caCertFile", "ca.crt", "absolute"),
		wrong("JWT path not absolute", "auth.jwt.jwtFile", "../jwt", "absolute"),
		wrong("state path not absolute", "state.path", "state.json", "absolute"),
		wrong("socket path not absolute", "server.socketPath", "kms.sock", "absolute"),
		wrong("socket path not clean", "server.socketPath", "/run//kms.sock", "simplest form"),
		wrong("abstract socket", "server.socketPath", "@kms", "abstract"),
		wrong("socket path too long", "server.socketPath", "/run/"+strings.Repeat("x", 103), "107 bytes"),
		wrong("socket mode too wide", "server.socketMode", "0666", "0660"),
		wrong("socket mode without quotes", "server.socketMode", 660, "quotes"),
		wrong("login mount without auth/", "auth.jwt.mountPath", "jwt", "auth/"),
		wrong("Transit mount that OpenBao keeps", "transit.mountPath", "sys/transit", "keeps for itself"),
		wrong("key name that is a path", "transit.keyName", "a/b", "not a name"),
		wrong("identity with a control character", "transit.keyIdScope.clusterId", "a\x00b", "control character"),
		wrong("identity with spaces at its end", "transit.keyIdScope.clusterId", "cluster ", "space"),
		wrong("unknown auth method", "auth.method", "token", "jwt, cert"),
		wrong("probe interval not below the staleness", "status.probeInterval", "3m", "status.statusMaxStaleness"),
		{
			name: "group that does not exist", fields: map[string]any{"server.socketGroup": "no-such-group-here"},
			code: exitConfiguration, problems: 1, words: []string{"server.socketGroup", "create the group"},
		},
		{
			name: "everything at once", code: exitConfiguration, problems: 4, alsoConfig: true,
			fields: map[string]any{"openbao.timeout": 2, "transit.keyName": nil, "server.extra": 1, "logging.format": "xml"},
			words:  []string{"4 problems", "openbao.timeout", "transit.keyName", "server.extra", "logging.format"},
		},
		{
			name: "--dev and plain HTTP to another host", fields: map[string]any{"openbao.address": "http://198.51.100.7:8200"}, args: []string{"--dev"},
			code: exitConfiguration, problems: 1, words: []string{"openbao.address", "loopback"},
		},
	}
}

// rewritten is a configuration file with another text.
func rewritten(name string, edit func(text string) string, problems int, words ...string) badCase {
	return badCase{
		name: name, code: exitConfiguration, problems: problems, alsoConfig: true, words: append([]string{"config.yaml"}, words...),
		spoil: func(t *testing.T, f stack.ProviderFiles) {
			t.Helper()
			content, err := os.ReadFile(f.Config)
			if err != nil {
				t.Fatal(err)
			}
			write(t, f.Config, edit(string(content)), 0o600)
		},
	}
}

func badConfigurationFiles() []badCase {
	cases := []badCase{
		rewritten("empty", func(string) string { return "" }, 1, "is empty"),
		rewritten("not YAML", func(text string) string { return text + "\t: [\n" }, 1, "not valid YAML", "line"),
		rewritten("duplicate field", func(text string) string { return text + "configVersion: v1alpha1\n" }, 1, "configVersion", "twice"),
		rewritten("two documents", func(text string) string { return text + "---\na: b\n" }, 1, "more than one YAML document"),
		rewritten("a list", func(string) string { return "- a\n- b\n" }, 1, "a list"),
		rewritten("an alias", func(text string) string { return text + "x: &a 1\ny: *a\n" }, 2, "not a known field"),
		rewritten("too large", func(text string) string { return text + "#" + strings.Repeat("x", 1<<20) }, 0, "larger than"),
	}
	for name, c := range map[string]struct{ path, word string }{
		"path not absolute": {"config.yaml", "give an absolute path"},
		"path not clean":    {"/etc/openbao-kms/../config.yaml", "simplest form"},
	} {
		cases = append(cases, badCase{
			name: name, args: []string{"--config", c.path}, code: exitConfiguration, alsoConfig: true, words: []string{"configuration file", c.word},
		})
	}
	path := func(f stack.ProviderFiles) string { return f.Config }
	return append(cases, badFiles("configuration file", path, exitConfiguration, true, nil,
		[]os.FileMode{0o602, 0o604, 0o620, 0o666}, nil)...)
}

// badFiles are the unsafe kinds, modes and owners of one file.
func badFiles(what string, path func(stack.ProviderFiles) string, code int, alsoConfig bool, creates []string, modes []os.FileMode, words []string) []badCase {
	file := func(name string, spoil func(t *testing.T, path string), extra ...string) badCase {
		return badCase{
			name: name, code: code, alsoConfig: alsoConfig, creates: creates, words: append(append([]string{what}, words...), extra...),
			spoil: func(t *testing.T, f stack.ProviderFiles) { t.Helper(); spoil(t, path(f)) },
		}
	}
	cases := []badCase{
		file("missing", func(t *testing.T, path string) { move(t, path, path+".elsewhere") }, "does not exist"),
		file("a link", func(t *testing.T, path string) { relink(t, path) }, "symbolic link"),
		file("a link to nothing", func(t *testing.T, path string) {
			move(t, path, path+".elsewhere")
			link(t, path+".nowhere", path)
		}, "symbolic link"),
		file("a directory", func(t *testing.T, path string) { move(t, path, path+".elsewhere"); mkdir(t, path, 0o700) }, "not a regular file"),
		file("a named pipe", func(t *testing.T, path string) { move(t, path, path+".elsewhere"); mkfifo(t, path) }, "not a regular file"),
	}
	for _, mode := range modes {
		cases = append(cases, file("mode "+mode.String(), func(t *testing.T, path string) { chmod(t, path, mode) }, "chmod"))
	}
	if os.Geteuid() == 0 {
		// Only root can give a file away. For everybody else the rule is covered where it is written.
		cases = append(cases, file("another owner", func(t *testing.T, path string) { chown(t, path) }, "owned by user"))
	}
	return cases
}

// nobody is a user that these tests never run as.
const nobody = 65534

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), mode))
	chmod(t, path, mode)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return string(content)
}

func move(t *testing.T, from, to string)                { t.Helper(); must(t, os.Rename(from, to)) }
func link(t *testing.T, to, path string)                { t.Helper(); must(t, os.Symlink(to, path)) }
func mkdir(t *testing.T, path string, mode os.FileMode) { t.Helper(); must(t, os.Mkdir(path, mode)) }
func chmod(t *testing.T, path string, mode os.FileMode) { t.Helper(); must(t, os.Chmod(path, mode)) }
func chown(t *testing.T, path string)                   { t.Helper(); must(t, os.Chown(path, nobody, -1)) }
func relink(t *testing.T, path string) {
	t.Helper()
	move(t, path, path+".real")
	link(t, path+".real", path)
}
func beside(f stack.ProviderFiles, name string) string { return filepath.Join(f.Dir, name) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
