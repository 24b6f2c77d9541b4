package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// least is the shortest configuration that is accepted.
var least = map[string]string{
	"configVersion":                     "v1alpha1",
	"server.socketGroup":                "kube-apiserver",
	"openbao.address":                   "https://bao.example.org:8200",
	"openbao.caCertFile":                "/etc/openbao-kms/ca.pem",
	"openbao.tlsServerName":             "bao.example.org",
	"openbao.instanceId":                "bao-prod-a",
	"auth.jwt.mountPath":                "auth/jwt",
	"auth.jwt.role":                     "kms",
	"auth.jwt.jwtFile":                  "/etc/openbao-kms/jwt",
	"transit.mountPath":                 "transit/prod",
	"transit.keyName":                   "kms-workload-a",
	"transit.keyIdScope.providerName":   "openbao-kms-workload-a",
	"transit.keyIdScope.clusterId":      "workload-a",
	"transit.keyIdScope.transitMountId": "transit-prod-primary",
	"transit.keyIdScope.keyLineageId":   "01HXEXAMPLEKEYLINEAGEID",
}

// cert changes least to the cert method.
var cert = []string{
	"auth.jwt.mountPath", "auth.jwt.role", "auth.jwt.jwtFile",
	"auth.method=cert", "auth.cert.mountPath=auth/cert",
	"auth.cert.certificateFile=/etc/openbao-kms/tls.crt", "auth.cert.keyFile=/etc/openbao-kms/tls.key",
}

// document is least with edits: "path=value" sets a field to a raw YAML value,
// "path" alone removes it.
func document(edits ...string) []byte {
	leaves := maps.Clone(least)
	for _, e := range edits {
		path, value, set := strings.Cut(e, "=")
		delete(leaves, path)
		if set {
			leaves[path] = value
		}
	}
	tree := map[string]any{}
	for path, value := range leaves {
		at := tree
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			next, ok := at[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
		at[names[len(names)-1]] = value
	}
	var b strings.Builder
	render(&b, tree, "")
	return []byte(b.String())
}

func render(b *strings.Builder, tree map[string]any, indent string) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		switch x := tree[name].(type) {
		case map[string]any:
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			render(b, x, indent+"  ")
		default:
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, x)
		}
	}
}

func parsed(t *testing.T, doc []byte, opts ...Option) *Config {
	t.Helper()
	c, err := Parse(doc, nil, opts...)
	if err != nil {
		t.Fatalf("refused: %v\n%s", err, doc)
	}
	return c
}

// refused returns the problems of a document, which must have some.
func refused(t *testing.T, doc []byte, opts ...Option) []Problem {
	t.Helper()
	c, err := Parse(doc, nil, opts...)
	if err == nil || c != nil {
		t.Fatalf("Parse returned (%v, %v), want a refusal of\n%s", c, err, doc)
	}
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) == 0 {
		t.Fatalf("error %T (%v) is not an *Error with problems", err, err)
	}
	for _, p := range e.Problems {
		if p.Field == "" || p.Text == "" || p.Fix == "" {
			t.Errorf("problem %+v does not say field, text and fix", p)
		}
	}
	return e.Problems
}

// one is refused for a document with exactly one problem.
func one(t *testing.T, doc []byte, opts ...Option) Problem {
	t.Helper()
	ps := refused(t, doc, opts...)
	if len(ps) != 1 {
		t.Fatalf("got %d problems %v, want one of\n%s", len(ps), ps, doc)
	}
	return ps[0]
}

// leavesOf lists the paths of all fields, login sections included.
func leavesOf(t reflect.Type, path string) []string {
	var all []string
	for _, f := range fieldsOf(t) {
		p := join(path, f.name)
		if !f.isSection() {
			all = append(all, p)
			continue
		}
		typ := f.typ
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		all = append(all, leavesOf(typ, p)...)
	}
	return all
}

// valueAt prints the field at path.
func valueAt(t *testing.T, c *Config, path string) string {
	t.Helper()
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		f, ok := fieldsOf(v.Type()).named(name)
		if !ok {
			t.Fatalf("no field %s", path)
		}
		v = v.Field(f.index)
	}
	return fmt.Sprint(v.Interface())
}
