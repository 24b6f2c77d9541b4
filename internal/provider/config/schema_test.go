package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every field is in the schema, and nothing else is.
func TestSchemaHasTheFields(t *testing.T) {
	var got []string
	var walk func(s map[string]any, path string)
	walk = func(s map[string]any, path string) {
		properties, ok := s["properties"].(map[string]any)
		if !ok {
			got = append(got, path)
			return
		}
		if s["additionalProperties"] != false {
			t.Errorf("%q lets unknown fields in", path)
		}
		for name, sub := range properties {
			if text, _ := sub.(map[string]any)["description"].(string); text == "" {
				t.Errorf("%s has no description", join(path, name))
			}
			walk(sub.(map[string]any), join(path, name))
		}
	}
	walk(schema(t), "")
	want := leavesOf(reflect.TypeFor[Config](), "")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("schema has %v\nfields are  %v", got, want)
	}
}

// schemaAt is the schema of one field.
func schemaAt(t *testing.T, path string) map[string]any {
	t.Helper()
	at := schema(t)
	for name := range strings.SplitSeq(path, ".") {
		next, ok := at["properties"].(map[string]any)[name].(map[string]any)
		if !ok {
			t.Fatalf("the schema has no %s", path)
		}
		at = next
	}
	return at
}

func TestSchemaHasTheDefaults(t *testing.T) {
	for _, c := range fieldCases {
		def, given := schemaAt(t, c.field)["default"]
		switch {
		case c.standard == "!" && given:
			t.Errorf("%s is required and has the default %v", c.field, def)
		case c.standard != "!" && fmt.Sprint(def) != c.standard:
			t.Errorf("%s has the default %v in the schema, %s in fact", c.field, def, c.standard)
		}
	}
}

// What Parse accepts, the schema accepts; what the schema refuses, Parse
// refuses. All values of the field tables and all documents of the rules
// between fields are tried.
func TestSchemaAgreesWithParse(t *testing.T) {
	s := schema(t)
	agree := func(t *testing.T, doc []byte) (bySchema bool) {
		t.Helper()
		value, ok := generic(doc)
		if !ok {
			return false
		}
		v := violation(t, s, value, "")
		if _, err := Parse(doc, nil); err == nil && v != "" {
			t.Errorf("Parse accepts what the schema refuses (%s):\n%s", v, doc)
		}
		return v == ""
	}
	for _, c := range fieldCases {
		base := editsFor(c.field)
		with := func(edit string) []byte { return document(append(slices.Clone(base), edit)...) }
		if bySchema := agree(t, with(c.field)); bySchema == (c.standard == "!") {
			t.Errorf("the schema accepts a file without %s: %v", c.field, bySchema)
		}
		for raw := range c.accepted {
			if !agree(t, with(c.field+"="+raw)) {
				t.Errorf("the schema refuses %s: %s", c.field, raw)
			}
		}
	}
	if agree(t, document("unheardOf=1")) || agree(t, document("status.unheardOf=1")) {
		t.Error("the schema accepts an unknown field")
	}
	both := []string{"auth.cert.mountPath=auth/cert", "auth.cert.certificateFile=/c", "auth.cert.keyFile=/k"}
	if !agree(t, document(cert...)) || agree(t, document(both...)) || agree(t, document("auth.method=cert")) {
		t.Error("the schema does not tie auth.method to its section")
	}
}

// These refusals are visible in the schema, so that an editor shows them.
func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	for _, edit := range []string{
		"configVersion=v1", `server.socketMode="0666"`, `server.socketMode="0060"`, `server.socketGroup="a b"`, "server.socketGroup=4294967295", "server.socketGroup=-1",
		"server.metricsAddress=abc", "server.socketPath=run/kms.sock", "server.maxConcurrentStatus=0", "server.maxConcurrentEncrypt=1025",
		`server.maxConcurrentDecrypt="64"`, "openbao.address=bao:8200", "openbao.address=https://bao/v1", `openbao.instanceId=""`,
		`openbao.instanceId=" a"`, `openbao.instanceId="a\tb"`, "openbao.timeout=2", `openbao.timeout="2"`, "openbao.timeout=-2s",
		"auth.method=token", "auth.jwt.mountPath=jwt", "transit.mountPath=/transit", "transit.mountPath=transit/", "transit.keyName=a/b",
		"rotation.mode=automatic", "rotation.requireStableObservationCount=0", "logging.level=loud", "logging.format=xml",
		"logging.logOpenBaoRequestIDs=1", `logging.debugCorrelation.incidentId="a b"`,
	} {
		value, ok := generic(document(edit))
		if !ok {
			t.Errorf("%s is not YAML", edit)
		} else if violation(t, s, value, "") == "" {
			t.Errorf("the schema accepts %s", edit)
		}
		refused(t, document(edit))
	}
}

func TestSchemaGolden(t *testing.T) {
	b, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", string(b))
	if got := schema(t)["required"]; fmt.Sprint(got) != "[configVersion server openbao auth transit]" {
		t.Errorf("required sections are %v", got)
	}
}

// The rules that no tag names would never run.
func TestEveryRuleIsUsed(t *testing.T) {
	used := map[string]bool{}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("rule"), ",")
			used[name] = true
			if f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Pointer {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if !used[name] {
			t.Errorf("no field has the rule %s", name)
		}
	}
}
