package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; got:\n%s", file, got)
	}
}

func TestLeastGivesTheDefaults(t *testing.T) {
	want := Default()
	want.ConfigVersion = "v1alpha1"
	want.Server.SocketGroup = "kube-apiserver"
	want.OpenBao.Address = "https://bao.example.org:8200"
	want.OpenBao.CACertFile = "/etc/openbao-kms/ca.pem"
	want.OpenBao.TLSServerName = "bao.example.org"
	want.OpenBao.InstanceID = "bao-prod-a"
	want.Auth.JWT = &JWTAuth{MountPath: "auth/jwt", Role: "kms", JWTFile: "/etc/openbao-kms/jwt"}
	want.Auth.JWT.setDefaults()
	want.Transit = Transit{"transit/prod", "kms-workload-a",
		KeyIDScope{"openbao-kms-workload-a", "workload-a", "transit-prod-primary", "01HXEXAMPLEKEYLINEAGEID"}}
	if got := parsed(t, document()); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Every problem of a file comes at once, in the file's order, each with its
// line, its full path, what is wrong and what to write.
func TestAllProblemsAtOnce(t *testing.T) {
	data, err := os.ReadFile("testdata/all-wrong.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse(data, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	golden(t, "all-wrong.txt", err.Error()+"\n")
	last := 0
	for _, p := range err.(*Error).Problems {
		if p.Line != 0 && p.Line < last {
			t.Errorf("%v comes after line %d", p, last)
		}
		last = p.Line
	}
}

func TestShapeOfTheDocument(t *testing.T) {
	whole := string(document())
	cases := []struct{ name, doc, field, text, fix string }{
		{"nothing", "", "the file", "is empty", "--config"},
		{"only comments", "# nothing\n", "the file", "is empty", "--config"},
		{"a list", "- a\n", "the file", "it is a list", "top level"},
		{"a word", "hello\n", "the file", "it is one value", "top level"},
		{"null", "~\n", "the file", "it is one value", "top level"},
		{"two documents", whole + "---\n" + whole, "the file", "more than one YAML document", "---"},
		{"a broken second document", whole + "---\n\t- {\n", "the file", "not valid YAML", "near"},
		{"a tab", "server:\n\tsocketGroup: a\n", "the file", "not valid YAML", "near"},
		{"an open quote", "configVersion: \"v1\n", "the file", "not valid YAML", "near"},
		{"not UTF-8", "configVersion: \"\xff\"\n", "the file", "not valid YAML", "near"},
		{"an alias", whole + "logging: {level: *transit-secret}\n", "the file", "aliases are not accepted", "near"},
		{"an anchor", strings.Replace(whole, "role: kms", "role: &a kms", 1), "auth.jwt.role", "anchor or tag", "value alone"},
		{"a tag", strings.Replace(whole, "role: kms", "role: !!str kms", 1), "auth.jwt.role", "anchor or tag", "value alone"},
		{"an own tag", strings.Replace(whole, "role: kms", "role: !secret kms", 1), "auth.jwt.role", "anchor or tag", "value alone"},
		{"an anchored section", strings.Replace(whole, "transit:\n", "transit: &a\n", 1), "transit", "anchor or tag", "value alone"},
		{"a merge key", whole + "<<: {state: {}}\n", "the file", "not a plain field name", "merge keys"},
		{"a number as key", whole + "1: a\n", "the file", "not a plain field name", "name: value"},
		{"a mapping as key", whole + "{a: b}: a\n", "the file", "not a plain field name", "name: value"},
		{"a key that could be anything", whole + "\"hvs.CAES/token\": a\n", "the file", "not a field name", "config schema"},
		{"an unknown section", whole + "telemetry: {}\n", "telemetry", "not a known field", "config schema"},
		{"a misspelt field", whole + "status: {probeIntervall: 5s}\n", "status.probeIntervall", "not a known field", "write probeInterval if"},
		{"the wrong case", whole + "status: {ProbeInterval: 5s}\n", "status.ProbeInterval", "not a known field", "write probeInterval if"},
		{"a field in the wrong section", whole + "status: {socketPath: /a}\n", "status.socketPath", "not a known field", "config schema"},
		{"a field twice", strings.Replace(whole, "role: kms", "role: kms\n    role: other", 1), "auth.jwt.role", "given twice", "first is on line 5"},
		{"a section twice", whole + "transit: {}\n", "transit", "given twice", "remove one"},
		{"an empty section", whole + "status:\n", "status", "has no value", "below it, indented"},
		{"a section that is a value", whole + "status: 30s\n", "status", "not a group of fields", "below it"},
		{"a value that is a section", whole + "state: {path: {a: b}}\n", "state.path", "a group of fields, not one value", "on the same line"},
		{"a section that is a list", whole + "status: [a]\n", "status", "not a group of fields", "below it"},
		{"a login section that is a value", string(document("auth.jwt.role", "auth.jwt.mountPath", "auth.jwt.jwtFile", "auth.jwt=a")), "auth.jwt", "not a group of fields", "below it"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := one(t, []byte(c.doc))
			if p.Field != c.field || !strings.Contains(p.Text, c.text) || !strings.Contains(p.Fix, c.fix) {
				t.Errorf("got %v\nwant %s, %q, %q", p, c.field, c.text, c.fix)
			}
			for _, secret := range []string{"hvs.CAES", "transit-secret"} {
				if strings.Contains(p.String(), secret) {
					t.Errorf("%v repeats what could be a secret", p)
				}
			}
		})
	}
}

// An alias could put one value into another field, so none is followed.
func TestAliases(t *testing.T) {
	anchored := strings.Replace(string(document()), "role: kms", "role: &a kms", 1)
	for name, doc := range map[string]string{
		"state":      anchored + "state: *a\n",
		"state.path": anchored + "state: {path: *a}\n",
	} {
		ps := refused(t, []byte(doc))
		if len(ps) != 2 || ps[0].Field != "auth.jwt.role" || ps[1].Field != name || ps[1].Text != "is a YAML alias, which is not accepted" {
			t.Errorf("%s: got %v", name, ps)
		}
	}
}

// Sections that are not there are reported by the fields that they must hold.
func TestMissingSections(t *testing.T) {
	var want []string
	for _, path := range leavesOf(reflect.TypeFor[Config](), "") {
		if _, needed := least[path]; needed {
			want = append(want, path)
		}
	}
	var got []string
	for _, p := range refused(t, []byte("{}\n")) {
		got = append(got, p.Field)
		if p.Text != "is missing" || p.Line != 0 {
			t.Errorf("got %v, want it missing, without a line", p)
		}
	}
	// The login section is judged after the others, since auth.method decides.
	if len(got) != len(want) {
		t.Fatalf("got %v\nwant %v", got, want)
	}
	for _, path := range want {
		if !strings.Contains(strings.Join(got, "\n")+"\n", path+"\n") {
			t.Errorf("%s is not reported", path)
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := func(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }
	c, err := Parse(document("logging.level=warn", "server.healthAddress=127.0.0.1:1"), env(map[string]string{
		EnvLogLevel:                        "debug",
		EnvMetricsAddress:                  "127.0.0.1:9999",
		EnvHealthAddress:                   "[::1]:9998",
		"BAO_KMS_PROVIDER_OPENBAO_ADDRESS": "https://elsewhere",
		"BAO_KMS_PROVIDER_CLUSTER_ID":      "another",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := parsed(t, document("logging.level=debug", "server.metricsAddress=127.0.0.1:9999", `server.healthAddress="[::1]:9998"`))
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}

	for variable, bad := range map[string]string{EnvLogLevel: "loud", EnvMetricsAddress: "8081", EnvHealthAddress: "127.0.0.1:8081"} {
		_, err := Parse(document(), env(map[string]string{variable: bad}))
		if err == nil {
			t.Errorf("%s=%s is accepted", variable, bad)
			continue
		}
		ps := err.(*Error).Problems
		if len(ps) != 1 || !(strings.Contains(ps[0].Text, variable) || strings.Contains(ps[0].Text, "same address")) {
			t.Errorf("%s=%s: got %v", variable, bad, ps)
		}
	}
}

// An address from the environment is compared with the other listener too.
func TestEnvironmentMeetsTheRules(t *testing.T) {
	_, err := Parse(document(), func(k string) string {
		return map[string]string{EnvMetricsAddress: "127.0.0.1:8082"}[k]
	})
	if err == nil || !strings.Contains(err.Error(), "server.healthAddress is the same address") {
		t.Errorf("got %v", err)
	}
}

func TestPath(t *testing.T) {
	none := func(string) string { return "" }
	set := func(k string) string { return map[string]string{EnvConfig: "/env.yaml"}[k] }
	for _, c := range []struct {
		flag   string
		getenv func(string) string
		want   string
	}{{"", none, "/etc/openbao-kms/config.yaml"}, {"", set, "/env.yaml"}, {"/flag.yaml", set, "/flag.yaml"}} {
		if got := Path(c.flag, c.getenv); got != c.want {
			t.Errorf("Path(%q) = %q, want %q", c.flag, got, c.want)
		}
	}
}

// A document that the second reader understands differently is refused. None is
// known; the fuzzer looks for one.
func TestReadersMustAgree(t *testing.T) {
	doc, c := document(), parsed(t, document())
	var agreed report
	if agreed.readAgain(doc, c); len(agreed.problems) != 0 {
		t.Errorf("one document, read twice: %v", agreed.problems)
	}
	other := parsed(t, document("logging.level=debug"))
	var r report
	r.readAgain(doc, other)
	if len(r.problems) != 1 || r.problems[0].Field != "the file" || !strings.Contains(r.problems[0].Text, "different readers") {
		t.Errorf("two meanings: %v", r.problems)
	}
}
