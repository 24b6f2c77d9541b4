package v1alpha1

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const crdDir = "../../config/crd"

// TestGeneratedFilesAreCurrent generates again, beside what is committed.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	const deepcopy = "zz_generated.deepcopy.go"
	cases := []struct {
		name      string
		args      []string
		committed string
		files     []string
	}{
		{"deepcopy of the API", []string{"object", "paths=."}, ".", []string{deepcopy}},
		{"deepcopy of the report", []string{"object", "paths=../../internal/report"}, "../../internal/report", []string{deepcopy}},
		{"CRDs", []string{"crd:headerFile=" + crdDir + "/header.txt", "paths=."}, crdDir,
			[]string{"kms.baokms.io_kmsnodereports.yaml", "kms.baokms.io_kmsrotationplans.yaml"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"tool", "controller-gen"}, append(c.args, "output:dir="+dir)...)
			if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
				t.Fatalf("controller-gen: %v\n%s", err, out)
			}
			made, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(made) != len(c.files) {
				t.Errorf("it made %d files, want %d", len(made), len(c.files))
			}
			for _, file := range c.files {
				if !bytes.Equal(content(t, filepath.Join(dir, file)), content(t, filepath.Join(c.committed, file))) {
					t.Errorf("%s is not current: run make generate", file)
				}
			}
		})
	}
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// crds are the committed ones.
func crds(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(crdDir + "/kms.baokms.io_*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.UnmarshalStrict(content(t, file), crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, crd)
	}
	return all
}

// TestKustomization: every CRD is applied.
func TestKustomization(t *testing.T) {
	var k struct{ Resources []string }
	if err := yaml.Unmarshal(content(t, crdDir+"/kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, crd := range crds(t) {
		want = append(want, crd.Spec.Group+"_"+crd.Spec.Names.Plural+".yaml")
	}
	if !slices.Equal(k.Resources, want) {
		t.Errorf("config/crd/kustomization.yaml names %v, want %v", k.Resources, want)
	}
}

// TestSchema: whoever asks kubectl explain gets an answer for every field, and
// server-side apply knows for every list who owns what.
func TestSchema(t *testing.T) {
	for _, crd := range crds(t) {
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		fields := walk(schema, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
			switch {
			case path == ".metadata": // the server has its own
			case s.Description == "" && !strings.HasSuffix(path, "[]"):
				t.Errorf("%s%s has no description", crd.Spec.Names.Kind, path)
			case s.Type == "array" && s.XListType == nil:
				t.Errorf("%s%s has no list type", crd.Spec.Names.Kind, path)
			case s.XPreserveUnknownFields != nil || s.AdditionalProperties != nil && path != ".spec.nodes.selector.matchLabels":
				t.Errorf("%s%s is open", crd.Spec.Names.Kind, path)
			}
		})
		if fields < 60 {
			t.Errorf("%s has only %d fields", crd.Spec.Names.Kind, fields)
		}
	}
}

// walk visits every field under s and returns how many there are.
func walk(s *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) int {
	n := 0
	for name, field := range s.Properties {
		visit(path+"."+name, &field)
		n += 1 + walk(&field, path+"."+name, visit)
	}
	if s.Items != nil {
		visit(path+"[]", s.Items.Schema)
		n += walk(s.Items.Schema, path+"[]", visit)
	}
	return n
}

// TestEveryRuleHasAMessage: an operator is never shown an expression. The tests
// of test/manager have every message from a real server.
func TestEveryRuleHasAMessage(t *testing.T) {
	rules := 0
	count := func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			rules++
			if len(rule.Message) < 30 {
				t.Errorf("%s: rule %s has message %q", path, rule.Rule, rule.Message)
			}
		}
	}
	for _, crd := range crds(t) {
		walk(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "", count)
	}
	if rules == 0 {
		t.Error("the CRDs have no rule")
	}
}
