package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/baokms/baokms/internal/goldentest"
)

// copied are the files of config/ that the chart holds a copy of.
var copied = []string{
	"crd/kms.baokms.io_kmsnodereports.yaml", "crd/kms.baokms.io_kmsrotationplans.yaml",
	"rbac/manager-role.yaml", "rbac/manager-binding.yaml", "rbac/manager-metrics-reader.yaml",
	"rbac/reporter-role.yaml", "rbac/reporter-binding.yaml", "admission/reporter-policy.yaml",
	"remote-reporters/remote-reporters.yaml",
}

// TestFilesAreCopies: files/ holds what config/ holds, and nothing else. With -update
// it copies them again, which is what make generate does.
func TestFilesAreCopies(t *testing.T) {
	for _, file := range copied {
		goldentest.Check(t, filepath.Join(chartPath, "files", file), read(t, filepath.Join(root, "config", file)))
	}
	var found []string
	err := filepath.WalkDir(filepath.Join(chartPath, "files"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(filepath.Join(chartPath, "files"), path)
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(copied))
	if !slices.Equal(found, want) {
		t.Errorf("files/ holds %v, want %v", found, want)
	}
	crds, err := filepath.Glob(filepath.Join(root, "config", "crd", "kms.*.yaml"))
	if err != nil || len(crds) != 2 {
		t.Errorf("config/crd has kinds that the chart does not know of: %v, %v", crds, err)
	}
}

// TestSameAsConfig: in its own namespace a release has exactly the kinds, the rights,
// the accounts and the policy of config/; in another one they follow it, and
// the role for Events stays.
func TestSameAsConfig(t *testing.T) {
	for _, namespace := range []string{system, "keys"} {
		all := rendered(t, input{namespace: namespace, release: "r", values: "remoteReporters: {enabled: true}"})
		want := objects{}
		for _, file := range copied {
			for _, o := range fromConfig(t, file) {
				o := move(o, namespace)
				want[key(o)] = o
			}
		}
		for key, o := range want {
			if all[key] == nil {
				t.Errorf("%s: the release lacks %s", namespace, key)
				continue
			}
			if d := difference("", plain(all[key]), plain(o)); d != "" {
				t.Errorf("%s: %s is not config's: %s", namespace, key, d)
			}
		}
		for _, group := range []string{"rbac.authorization.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io"} {
			for key := range all.ofGroup(group) {
				if want[key] == nil {
					t.Errorf("%s: the release has %s, which config/ has not", namespace, key)
				}
			}
		}
	}
}

// move is an object of config/ for a release in another namespace.
func move(o *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
			return v
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
			return v
		case string:
			switch {
			case v == system:
				return namespace
			case strings.Contains(v, "system:serviceaccount:"+system+":"):
				return strings.Replace(v, system, namespace, 1)
			}
		}
		return v
	}
	moved := o.DeepCopy()
	moved.Object = walk(moved.Object).(map[string]any)
	return moved
}

// plain is an object without the labels and the annotation that the chart adds, and
// with all numbers as JSON has them.
func plain(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetLabels(nil)
	annotations := o.GetAnnotations()
	delete(annotations, "helm.sh/resource-policy")
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	return o.Object
}

// difference says where two decoded objects differ first; empty when nowhere.
func difference(path string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if d := difference(path+"."+k, got[k], want[k]); d != "" {
				return d
			}
		}
		for k := range got {
			if _, ok := want[k]; !ok {
				return fmt.Sprintf("%s.%s is too much", path, k)
			}
		}
		return ""
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			break
		}
		for i := range want {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), got[i], want[i]); d != "" {
				return d
			}
		}
		return ""
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%s is %v, want %v", path, got, want)
	}
	return ""
}

// TestKinds: they stay when the release goes, unless told otherwise, and say which
// generator made them.
func TestKinds(t *testing.T) {
	for values, policy := range map[string]string{"": "keep", "crds: {keep: false}": ""} {
		crds := rendered(t, input{values: values}).ofGroup("apiextensions.k8s.io")
		if len(crds) != 2 {
			t.Fatalf("%d kinds", len(crds))
		}
		for key, crd := range crds {
			if got := crd.GetAnnotations()["helm.sh/resource-policy"]; got != policy {
				t.Errorf("with %q %s has the policy %q, want %q", values, key, got, policy)
			}
			if !slices.Contains(slices.Collect(maps.Keys(crd.GetAnnotations())), "controller-gen.kubebuilder.io/version") {
				t.Errorf("%s lost its generator's annotation", key)
			}
		}
	}
}
