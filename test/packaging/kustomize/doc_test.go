// Package kustomize holds config/ as an operator applies it: what kustomize renders from it, decoded and checked against itself, against the
// rules for pods, against the built bao-kms-manager and against a real API server.
//
// It needs `make build servers`.
package kustomize

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// root is the root of the checkout, seen from here.
const root = "../../.."

// object is one rendered object.
type object = *unstructured.Unstructured

// render is what kustomize makes of a folder.
func render(t *testing.T, dir string) []object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []object
	for _, r := range resources.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// config is what kustomize makes of a folder of config/.
func config(t *testing.T, name string) []object {
	t.Helper()
	return render(t, filepath.Join(root, "config", name))
}

// overlay writes an overlay and returns its folder; CONFIG in a file is the path of config/ from there.
func overlay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(filepath.Join(root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "CONFIG", config)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// name is KIND NAMESPACE/NAME, or KIND NAME.
func name(o object) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// names are those of all objects, sorted.
func names(all []object) []string {
	var found []string
	for _, o := range all {
		found = append(found, name(o))
	}
	slices.Sort(found)
	return found
}

// get decodes the object of a name into its type, without a field that the type has not.
func get[T any](t *testing.T, all []object, wanted string) *T {
	t.Helper()
	for _, o := range all {
		if name(o) == wanted {
			return decode[T](t, o)
		}
	}
	t.Fatalf("there is no %s among %q", wanted, names(all))
	return nil
}

func decode[T any](t *testing.T, o object) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
		t.Fatalf("%s: %v", name(o), err)
	}
	return typed
}

// decodeAll decodes all objects of a kind.
func decodeAll[T any](t *testing.T, all []object, kind string) []*T {
	t.Helper()
	var found []*T
	for _, o := range all {
		if o.GetKind() == kind {
			found = append(found, decode[T](t, o))
		}
	}
	if len(found) == 0 {
		t.Fatalf("there is no %s among %q", kind, names(all))
	}
	return found
}

// tryRender is the names of what kustomize makes of a folder.
func tryRender(dir string) ([]string, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range resources.Resources() {
		found = append(found, r.GetKind()+" "+r.GetNamespace()+"/"+r.GetName())
	}
	return found, nil
}
