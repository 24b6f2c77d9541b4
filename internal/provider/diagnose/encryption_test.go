package diagnose

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
)

const (
	testSocket = "/run/openbao-kms-nowhere/kms.sock"
	testName   = "openbao-kms-workload-a"
	// testSecret is a key of another provider: it may be nowhere but in the file.
	testSecret = "c2VjcmV0IGlzIHNlY3VyZSwgb3IgaXMgaXQ/Cg=="
	keyOfFile  = "aescbc: {keys: [{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}"
	ours       = "kms: {apiVersion: v2, name: " + testName + ", endpoint: 'unix://" + testSocket + "', timeout: 3s}"
	others     = "kms: {apiVersion: v2, name: elsewhere, endpoint: 'unix:///run/elsewhere/plugin.sock'}"
	plain      = "identity: {}"
)

// kms is ours with one field changed: "name: x"; an empty value removes it.
func kms(changes ...string) string {
	fields := map[string]string{"apiVersion": "v2", "name": testName, "endpoint": "'unix://" + testSocket + "'", "timeout": "3s"}
	order := []string{"apiVersion", "name", "endpoint", "timeout"}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, ": ")
		if _, known := fields[name]; !known {
			order = append(order, name)
		}
		fields[name] = value
	}
	var parts []string
	for _, name := range order {
		if fields[name] != "" {
			parts = append(parts, name+": "+fields[name])
		}
	}
	return "kms: {" + strings.Join(parts, ", ") + "}"
}

// group is an element of resources.
func group(resources string, providers ...string) string {
	return "- resources: [" + resources + "]\n  providers:\n  - " + strings.Join(providers, "\n  - ") + "\n"
}

// encryption is a whole document.
func encryption(groups ...string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" + strings.Join(groups, "")
}

// encryptionExam is an examination of a document with a configuration.
func encryptionExam(t *testing.T, document string) *exam {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newExam(Options{EncryptionConfig: path})
	e.config = config.Default()
	e.config.Server.SocketPath = testSocket
	e.config.Transit.KeyIDScope.ProviderName = testName
	return e
}

// want is how a check should end.
type want struct {
	result command.Result
	reason string
	words  []string
}

var good = want{result: command.Pass}

func skip(words ...string) want             { return want{command.Skip, "", words} }
func pass(words ...string) want             { return want{command.Pass, "", words} }
func warn(reason string, w ...string) want  { return want{command.Warn, reason, w} }
func fails(reason string, w ...string) want { return want{command.Fail, reason, w} }

// hold fails the test where a finding is not what it should be.
func (w want) hold(t *testing.T, what string, f finding) {
	t.Helper()
	if f.result == "" {
		f.result = command.Pass
	}
	text := f.message + "; " + f.nextStep + " " + strings.Join(f.because, " ")
	if f.result != w.result || f.reason != w.reason {
		t.Errorf("%s: %s %q, want %s %q: %s", what, f.result, f.reason, w.result, w.reason, text)
	}
	for _, word := range w.words {
		if !strings.Contains(text, word) {
			t.Errorf("%s does not say %q: %s", what, word, text)
		}
	}
	if bad := f.result == command.Warn || f.result == command.Fail; bad && (f.message == "" || f.nextStep == "" || f.reason == "") {
		t.Errorf("%s does not say everything: %+v", what, f)
	}
	for _, never := range []string{testSecret, testSocket, "MDEyMzQ1Njc4OWFiY2RlZg", "/run", "/var", "\n"} {
		if strings.Contains(text, never) {
			t.Errorf("%s holds %q: %s", what, never, text)
		}
	}
	if strings.HasSuffix(f.message, ".") || strings.HasSuffix(f.nextStep, ".") {
		t.Errorf("%s ends with a period: %s", what, text)
	}
}

var encryptionCases = []struct {
	name, document     string
	provider, identity want
}{
	{"as the manual has it", encryption(group("secrets", ours)), good, good},
	{"with identity last", encryption(group("secrets", ours, plain)), good, warn("identity_fallback", "secrets")},
	{"with identity first", encryption(group("secrets", plain, ours)), good, fails("identity_first", "plaintext: secrets", "put the kms provider first")},
	{"with identity between", encryption(group("secrets", ours, plain, keyOfFile)), good, warn("identity_fallback", "secrets")},
	{"the API server's defaults", encryption(group("secrets", kms("timeout: "))), good, good},
	{"block style, quotes, comments and JSON names", "# ours\nkind: \"EncryptionConfiguration\"\napiVersion: 'apiserver.config.k8s.io/v1'\nresources:\n- providers:\n  - kms:\n      endpoint: unix://" + testSocket +
		"\n      name: " + testName + "\n      apiVersion: v2\n  resources:\n  - secrets\n", good, good},
	{"JSON", `{"kind":"EncryptionConfiguration","apiVersion":"apiserver.config.k8s.io/v1","resources":[{"resources":["secrets"],"providers":[{"kms":{"apiVersion":"v2","name":"` + testName + `","endpoint":"unix://` + testSocket + `"}}]}]}`, good, good},

	{"several groups", encryption(group("events", plain), group("secrets, configmaps", ours), group("pods", keyOfFile)), good, pass("never encrypted: events")},
	{"a fallback and a plain group", encryption(group("events", plain), group("secrets", ours, plain)), good, warn("identity_fallback", "plaintext: secrets", "never encrypted: events")},
	{"all of the core group", encryption(group("'*.'", ours)), good, good},
	{"everything", encryption(group("'*.*'", ours)), good, good},
	{"another group only", encryption(group("'*.apps'", ours)), warn("secrets_not_covered", "not used for secrets"), good},
	{"a custom resource only", encryption(group("pandas.awesome.bears.example", ours)), warn("secrets_not_covered"), good},
	{"secrets before the wildcard", encryption(group("secrets", keyOfFile), group("'*.*'", ours)), warn("secrets_not_covered"), good},
	{"plain secrets before the wildcard", encryption(group("secrets", plain), group("'*.*'", ours)), warn("secrets_not_covered"), fails("identity_first", "secrets")},
	{"plain secrets by a wildcard", encryption(group("configmaps", ours), group("'*.*'", plain)), warn("secrets_not_covered"), fails("identity_first", "secrets", "never encrypted: *.*")},

	{"another provider behind", encryption(group("secrets", ours, keyOfFile)), good, good},
	{"another provider in front", encryption(group("secrets", keyOfFile, ours)), warn("provider_not_first", "only decrypts, for secrets"), good},
	{"another kms in front", encryption(group("secrets", others, ours)), warn("provider_not_first", "secrets"), good},
	{"in front in one group only", encryption(group("configmaps", others, kms("name: second")), group("secrets", ours)), warn("provider_not_first", "for configmaps"), good},
	{"first by an earlier group of the same resource", encryption(group("secrets", ours), group("secrets, configmaps", keyOfFile)), good, good},
	{"later by an earlier group of the same resource", encryption(group("secrets", keyOfFile), group("secrets", ours, plain)), warn("provider_not_first", "secrets"), warn("identity_fallback", "secrets")},
	{"plaintext by an earlier group of the same resource", encryption(group("secrets", plain), group("secrets", ours)), good, fails("identity_first", "secrets")},
	{"every kind of provider", encryption(group("secrets", ours, others, keyOfFile, "aesgcm: {keys: [{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}",
		"secretbox: {keys: [{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}", plain)), good, warn("identity_fallback")},

	{"no kms", encryption(group("secrets", keyOfFile)), fails("provider_missing", "no provider in it is a kms provider"), skip("encryptionconfig.provider")},
	{"plain alone", encryption(group("secrets", plain)), fails("provider_missing"), fails("identity_first", "secrets")},
	{"another kms only", encryption(group("secrets", others, plain)), fails("provider_missing", "none of its 1 kms providers"), skip("encryptionconfig.provider")},
	{"v1", encryption(group("secrets", kms("apiVersion: v1", "cachesize: 100"))), fails("kms_v1", "apiVersion v1", "write apiVersion: v2"), good},
	{"no version", encryption(group("secrets", kms("apiVersion: "))), fails("kms_v1", "line 6", "resources[0].providers[0].kms"), good},
	{"v1 behind v2", encryption(group("secrets", ours, kms("apiVersion: v1", "name: old"))), fails("kms_v1", "providers[1]"), good},

	{"another name", encryption(group("secrets", kms("name: something"))), warn("name_differs", "is not providerName"), good},
	{"nearly the name", encryption(group("secrets", kms("name: openbao-kms-workload-b"))), warn("name_differs", "in 1 character"), good},
	{"the name in capitals", encryption(group("secrets", kms("name: OpenBao-KMS-workload-a"))), fails("name_differs", "upper and lower case"), good},
	{"the name with underscores", encryption(group("secrets", kms("name: openbao_kms_workload_a"))), fails("name_differs", "hyphens"), good},
	{"the name with white space", encryption(group("secrets", kms("name: '"+testName+" '"))), fails("name_differs", "white space around it"), good},
	{"a name like a date", encryption(group("secrets", kms("name: 2026-11-30"))), warn("name_differs", "is not providerName"), good},
	{"the older form", "apiVersion: v1\nkind: EncryptionConfig\nresources:\n" + group("secrets", ours), good, good},
	{"an end of the document", encryption(group("secrets", ours)) + "---\n", good, good},
	{"empty documents", encryption(group("secrets", ours)) + "---\n# nothing\n---\n...\n", good, good},
	{"two documents", encryption(group("secrets", ours)) + "---\n" + encryption(group("secrets", plain)), warn("encryption_config_documents", "takes the first and ignores the rest", "second ---"), good},
	{"a second document that is no YAML", encryption(group("secrets", ours)) + "---\na: [\n", warn("encryption_config_documents"), good},
	{"two documents, the first of them wrong", encryption(group("secrets", keyOfFile)) + "---\n" + encryption(group("secrets", ours)), fails("provider_missing", "also: the file holds more than one YAML document"), skip("encryptionconfig.provider")},
	{"another plugin's v1", encryption(group("secrets", ours, "kms: {name: old, endpoint: 'unix:///run/elsewhere/plugin.sock'}")),
		warn("kms_v1", "line 7, resources[0].providers[1].kms has apiVersion v1", "refuses the whole file unless it runs with --feature-gates=KMSv1=true", "every kube-apiserver"), good},
	{"another plugin's v1 in front", encryption(group("secrets", "kms: {name: old, endpoint: 'unix:///run/elsewhere/plugin.sock'}", ours)),
		warn("kms_v1", "line 6", "--feature-gates=KMSv1=true", "also: another provider comes before this one"), good},
	{"two v1 of other plugins", encryption(group("secrets", ours, "kms: {name: old, endpoint: 'unix:///run/elsewhere/plugin.sock'}"), group("configmaps", "kms: {apiVersion: v1, name: older, endpoint: 'unix:///run/elsewhere/plugin.sock'}")),
		warn("kms_v1", "and so have 1 more kms providers"), good},
	{"two names, one of them right", encryption(group("secrets", kms("name: old"), kms("name: "+testName))), good, good},

	{"a short timeout", encryption(group("secrets", kms("timeout: 1s"))), warn("timeout_short", "1s is not longer than openbao.timeout, 2s"), good},
	{"an equal timeout", encryption(group("secrets", kms("timeout: 2000ms"))), warn("timeout_short"), good},
	{"several things", encryption(group("configmaps", keyOfFile, kms("timeout: 1s", "name: OPENBAO-kms-workload-a"))),
		fails("name_differs", "upper and lower case", "also: line 7, resources[0].providers[1].kms: the timeout of 1s", "and 1 more"), good},

	{"the endpoint with a slash", encryption(group("secrets", kms("endpoint: 'unix://"+testSocket+"/'"))), fails("endpoint_differs", "the endpoint ends with a slash"), skip()},
	{"our name with another socket", encryption(group("secrets", kms("endpoint: 'unix:///run/elsewhere/plugin.sock'"))), fails("endpoint_differs", "has the provider's name, but its endpoint names another socket"), skip()},
	{"nearly our endpoint beside ours", encryption(group("secrets", ours, kms("name: b", "endpoint: 'unix:///run/openbao-kms-nowhere/KMS.sock'"))), fails("endpoint_differs", "providers[1]", "upper and lower case"), good},
	{"an endpoint that is no URL elsewhere", encryption(group("secrets", ours, kms("name: b", "endpoint: '://'"))), fails("encryption_config_invalid", "is not a URL"), good},
	{"an endpoint of another scheme elsewhere", encryption(group("secrets", ours, kms("name: b", "endpoint: 'tcp://127.0.0.1:1'"))), fails("encryption_config_invalid", "does not begin with unix://"), good},
}

func TestEncryptionConfigurations(t *testing.T) {
	for _, c := range encryptionCases {
		t.Run(c.name, func(t *testing.T) {
			e := encryptionExam(t, c.document)
			c.provider.hold(t, encryptionKMS, checkEncryptionProvider(t.Context(), e))
			c.identity.hold(t, encryptionPlain, checkEncryptionIdentity(t.Context(), e))
		})
	}
}

// What the API server would refuse is told with its line, and identity cannot be
// judged then.
var refusedCases = []struct{ name, document, problem string }{
	{"nothing", "", "the file is empty"},
	{"a comment", "# nothing\n", "the file is empty"},
	{"no YAML", "resources: [\n", "is not valid YAML"},
	{"a tab", "kind: x\n\tresources: y\n", "is not valid YAML"},
	{"a text", "secret\n", "line 1: the file is not a group of fields"},
	{"an empty first document", "---\n---\n" + encryption(group("secrets", ours)), "line 2: the file is not a group of fields"},
	{"the older version with the newer kind", "apiVersion: v1\nkind: EncryptionConfiguration\nresources:\n" + group("secrets", ours), "line 1: apiVersion is not apiserver.config.k8s.io/v1"},
	{"the older kind with the newer version", "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfig\nresources:\n" + group("secrets", ours), "line 2: kind is not EncryptionConfiguration"},
	{"no version", strings.Replace(encryption(group("secrets", ours)), "apiVersion: apiserver.config.k8s.io/v1\n", "", 1), "apiVersion is missing"},
	{"an old version", strings.Replace(encryption(group("secrets", ours)), "apiserver.config.k8s.io/v1", "v1", 1), "apiVersion is not apiserver.config.k8s.io/v1"},
	{"another kind", strings.Replace(encryption(group("secrets", ours)), "EncryptionConfiguration", "EncryptionConfig", 1), "line 2: kind is not EncryptionConfiguration"},
	{"no groups", "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n", "resources is missing"},
	{"an empty list of groups", "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: []\n", "resources is empty"},
	{"an unknown field", encryption(group("secrets", ours)) + "spec: " + testSecret + "\n", "line 7: the file has a field that does not exist"},
	{"a secret as a field", encryption(group("secrets", "aescbc: {keys: [{name: k, '"+testSecret+"': x}]}")), "a field that does not exist"},
	{"a field in another case", encryption(group("secrets", "kms: {apiversion: v2, name: n, endpoint: 'unix:///x'}")), "differs from apiVersion in upper and lower case"},
	{"a field twice", encryption(group("secrets", "kms: {apiVersion: v2, name: n, name: m, endpoint: 'unix:///x'}")), "kms.name is given twice"},
	{"no resources", encryption("- providers:\n  - " + ours + "\n"), "resources[0].resources is missing"},
	{"no providers", encryption("- resources: [secrets]\n"), "resources[0].providers is missing"},
	{"an empty provider", encryption(group("secrets", "{}")), "names no provider"},
	{"identity without braces", encryption(group("secrets", ours, "identity:")), "providers[1] names no provider"},
	{"two in one", encryption(group("secrets", "{identity: {}, "+ours+"}")), "names more than one provider"},
	{"identity with a field", encryption(group("secrets", "identity: {a: b}")), "a field that does not exist"},
	{"a provider that does not exist", encryption(group("secrets", "vault: {}")), "a field that does not exist"},
	{"resources as text", encryption("- resources: secrets\n  providers: [{identity: {}}]\n"), "resources is not a list"},
	{"a resource in capitals", encryption(group("Secrets", ours)), "has capital letters"},
	{"a star", encryption(group("'*'", ours)), "is * alone"},
	{"an empty resource", encryption(group("''", ours)), "resources[0].resources[0] is empty"},
	{"a resource of all groups", encryption(group("'secrets.*'", ours)), "one resource in all groups"},
	{"events by their other group", encryption(group("events.events.k8s.io", ours)), "write events"},
	{"the group extensions", encryption(group("ingresses.extensions", ours)), "no longer exists"},
	{"no REST resource", encryption(group("serviceipallocations", ours)), "no resource of the REST API"},
	{"a resource twice", encryption(group("secrets, secrets", ours)), "names a resource twice"},
	{"a wildcard beside", encryption(group("secrets, '*.'", ours)), "a wildcard that covers it"},
	{"everything beside", encryption(group("'*.*', pods", ours)), "a wildcard that covers it"},
	{"masked by a group's wildcard", encryption(group("'*.apps'", others), group("deployments.apps", ours)), "resources[1].resources[0] is covered by a wildcard of an earlier group"},
	{"masked by everything", encryption(group("'*.*'", others), group("secrets", ours)), "is covered by a wildcard"},
	{"a wildcard twice", encryption(group("'*.'", others), group("'*.'", ours)), "is the same wildcard"},
	{"a name twice", encryption(group("secrets", ours), group("configmaps", ours)), "names of apiVersion v2 are unique"},
	{"no name", encryption(group("secrets", kms("name: "))), "name is missing"},
	{"a name with a colon", encryption(group("secrets", kms("name: 'a:b'"))), "holds a colon"},
	{"a name that is a number", encryption(group("secrets", kms("name: 12"))), "name is not text"},
	{"a name that is yes", encryption(group("secrets", kms("name: yes"))), "name is not text"},
	{"no endpoint", encryption(group("secrets", kms("endpoint: "))), "endpoint is missing"},
	{"version 3", encryption(group("secrets", kms("apiVersion: v3"))), "apiVersion is neither v1 nor v2"},
	{"a version in capitals", encryption(group("secrets", kms("apiVersion: V2"))), "apiVersion is neither v1 nor v2"},
	{"a cache with v2", encryption(group("secrets", kms("cachesize: 10"))), "cachesize is not allowed with apiVersion v2"},
	{"no cache with v1", encryption(group("secrets", kms("apiVersion: v1", "cachesize: 0"))), "other than 0"},
	{"a timeout without a unit", encryption(group("secrets", kms("timeout: 3"))), "timeout is not text"},
	{"a timeout that is none", encryption(group("secrets", kms("timeout: '3'"))), "timeout is not a positive duration"},
	{"no time at all", encryption(group("secrets", kms("timeout: 0s"))), "timeout is not a positive duration"},
	{"no keys", encryption(group("secrets", "aescbc: {}")), "keys is missing"},
	{"a key without a name", encryption(group("secrets", "aescbc: {keys: [{secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}")), "keys[0].name is missing"},
	{"a key of a wrong length", encryption(group("secrets", "aescbc: {keys: [{name: k, secret: "+testSecret+"}]}")), "is not a key of the length"},
	{"a key that is not base64", encryption(group("secrets", "secretbox: {keys: [{name: k, secret: '!'}]}")), "is not a key of the length"},
	{"an alias to nothing", encryption(group("secrets", "*a")), "is not valid YAML"},
}

// What the API server may well take and this reader does not follow is no failure.
var unjudgedCases = []struct{ name, document, problem string }{
	{"an alias", encryption(group("secrets", "&a {identity: {}}", "*a")), "line 7: the file uses a YAML alias"},
	{"an alias for a text", encryption(group("&s secrets", ours), group("*s", others)), "uses a YAML alias"},
	{"a merge key", encryption(group("secrets", "kms: &k {apiVersion: v2, name: a, endpoint: 'unix:///a'}", "kms: {<<: *k, name: b}")), "line 7: the file uses a YAML merge key"},
	{"a tag", encryption(group("secrets", kms("name: !!binary "+testSecret))), "uses a YAML tag"},
	{"beside something else", encryption(group("Secrets", "&a {identity: {}}", "*a")), "uses a YAML alias"},
}

func TestUnjudgedEncryptionConfigurations(t *testing.T) {
	for _, c := range unjudgedCases {
		t.Run(c.name, func(t *testing.T) {
			e := encryptionExam(t, c.document)
			warn("encryption_config_not_judged", "the file cannot be judged here", c.problem).hold(t, encryptionKMS, checkEncryptionProvider(t.Context(), e))
			skip(encryptionKMS).hold(t, encryptionPlain, checkEncryptionIdentity(t.Context(), e))
		})
	}
}

func TestRefusedEncryptionConfigurations(t *testing.T) {
	for _, c := range refusedCases {
		t.Run(c.name, func(t *testing.T) {
			e := encryptionExam(t, c.document)
			fails("encryption_config_invalid", c.problem).hold(t, encryptionKMS, checkEncryptionProvider(t.Context(), e))
			skip(encryptionKMS).hold(t, encryptionPlain, checkEncryptionIdentity(t.Context(), e))
		})
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	e := encryptionExam(t, encryption(group("Secrets", "{}"), group("Pods", "{}"), group("'*'", "{}")))
	fails("encryption_config_invalid", "it has 6 problems: line 4: resources[0].resources[0] has capital letters", "and 3 more", "in this order").
		hold(t, encryptionKMS, checkEncryptionProvider(t.Context(), e))
}

func TestEncryptionFilesThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		name string
		path string
		want want
	}{
		{"not asked for", "", skip("give --encryption-config")},
		{"missing", filepath.Join(t.TempDir(), "missing"), fails("encryption_config_missing", "--encryption-provider-config")},
		{"a directory", t.TempDir(), fails("encryption_config_unreadable", "not a regular file")},
		{"a FIFO", fifo(t), fails("encryption_config_unreadable", "not a regular file", "- for standard input")},
		{"a device", os.DevNull, fails("encryption_config_unreadable", "not a regular file")},
		{"too large", filepath.Join(t.TempDir(), "large"), fails("encryption_config_unreadable", "larger than")},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := encryptionExam(t, "")
			e.o.EncryptionConfig = c.path
			if c.name == "too large" {
				if err := os.WriteFile(c.path, make([]byte, encryptionLimit+1), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c.want.hold(t, encryptionKMS, checkEncryptionProvider(t.Context(), e))
			f := checkEncryptionIdentity(t.Context(), e)
			skip().hold(t, encryptionPlain, f)
		})
	}
}

// fifo is one that nobody writes to: opening it would wait for a writer.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSilentInput: nobody waits for ever for what does not come, and the command
// can be ended meanwhile.
func TestSilentInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		began := time.Now()
		_, err := readInput(t.Context(), in, inputTimeout)
		if want := "nothing came on standard input within 30s, or not to its end"; err == nil || err.Error() != want || time.Since(began) != inputTimeout {
			t.Errorf("%v after %v, want %q", err, time.Since(began), want)
		}
		_ = out.Close() // its reader ends
	})
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = io.WriteString(out, "kind: x\n")
			synctest.Wait()
			cancel()
		}()
		began := time.Now()
		_, err := readInput(ctx, in, inputTimeout)
		if want := "the command was interrupted while it waited for standard input"; err == nil || err.Error() != want || time.Since(began) != 0 {
			t.Errorf("%v after %v, want %q", err, time.Since(began), want)
		}
		_ = out.Close()
	})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = stdin }()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := encryptionExam(t, "")
	e.o.EncryptionConfig = "-"
	fails("encryption_config_unreadable", "was not read: the command was interrupted", "--encryption-config - < FILE").hold(t, encryptionKMS, checkEncryptionProvider(ctx, e))
	skip(encryptionKMS).hold(t, encryptionPlain, checkEncryptionIdentity(ctx, e))
}

// Root's shell hands over what only root may open.
func TestEncryptionConfigFromStandardInput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = stdin }()
	if _, err := w.WriteString(encryption(group("secrets", ours, plain))); err != nil {
		t.Fatal(err)
	}
	w.Close()
	e := encryptionExam(t, "")
	e.o.EncryptionConfig = "-"
	good.hold(t, encryptionKMS, checkEncryptionProvider(t.Context(), e))
	warn("identity_fallback").hold(t, encryptionPlain, checkEncryptionIdentity(t.Context(), e))
}

// Without a configuration nobody knows which provider is this node's, so identity
// is held against any.
func TestIdentityWithoutAConfiguration(t *testing.T) {
	e := encryptionExam(t, encryption(group("secrets", plain, others)))
	e.config = nil
	fails("identity_first", "secrets").hold(t, encryptionPlain, checkEncryptionIdentity(t.Context(), e))
}

// FuzzEncryptionConfig: whatever the file is, it is judged without a panic, and
// what was read has the form that the judgement relies on.
func FuzzEncryptionConfig(f *testing.F) {
	for _, c := range encryptionCases {
		f.Add([]byte(c.document))
	}
	for _, c := range refusedCases {
		f.Add([]byte(c.document))
	}
	for _, c := range unjudgedCases {
		f.Add([]byte(c.document))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		look := judgedDocument(data)
		file := look.file
		if (file == nil) != (look.bad.result != "") || file != nil && len(file.groups) == 0 {
			t.Fatalf("neither a file nor a problem, or both: %+v", look)
		}
		e := newExam(Options{EncryptionConfig: "x"})
		e.config, e.encryption = config.Default(), look
		e.config.Server.SocketPath, e.config.Transit.KeyIDScope.ProviderName = testSocket, testName
		for _, found := range []finding{checkEncryptionProvider(t.Context(), e), checkEncryptionIdentity(t.Context(), e)} {
			bad := found.result == command.Fail || found.result == command.Warn
			if bad != (found.reason != "") || bad && (found.message == "" || found.nextStep == "") || found.result == command.Skip && len(found.because) == 0 {
				t.Errorf("%+v", found)
			}
			if strings.ContainsAny(found.message+found.nextStep, "\n\r") {
				t.Errorf("more than one line: %q", found.message)
			}
		}
		if look.file == nil {
			return
		}
		for _, k := range file.entries() {
			if k.name == "" || k.endpoint == "" || k.timeout <= 0 {
				t.Errorf("an entry that the API server would refuse was read: %+v", k)
			}
		}
		for _, r := range file.resources() {
			if file.effective(r) == nil {
				t.Errorf("%v has no providers", r)
			}
		}
	})
}
