package manager

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

const digest = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// strict refuses unknown fields, as kubectl does.
const strict = client.FieldValidation("Strict")

// object is an object of the API as somebody would write it: only what is given.
func object(kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: runtimeJSON(fields)}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	o.SetName(name)
	return o
}

// runtimeJSON gives values the types that JSON has.
func runtimeJSON(fields map[string]any) map[string]any {
	doc, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	u := new(unstructured.Unstructured)
	// Only its own kind of decoder keeps integers apart from other numbers.
	if err := u.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"x","fields":` + string(doc) + `}`)); err != nil {
		panic(err)
	}
	return u.Object["fields"].(map[string]any)
}

// spec is a valid plan's, changed: a value replaces the field, nil removes it.
func spec(change map[string]any) map[string]any {
	fields := map[string]any{"providerName": "openbao-kms-workload-a", "nodes": map[string]any{"names": []string{"cp-1", "cp-2"}}}
	maps.Copy(fields, change)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	return fields
}

type fields = map[string]any

func nodes(f fields) fields      { return fields{"nodes": f} }
func retirement(f fields) fields { return fields{"retirement": f} }

func evidence(rewrite, backups string) fields {
	return fields{"rewrite": rewrite, "backups": backups}
}

func selector(operator string, values ...string) fields {
	e := fields{"key": "pool", "operator": operator}
	if values != nil {
		e["values"] = values
	}
	return nodes(fields{"selector": fields{"matchExpressions": []any{e}}})
}

// numbered are n different node names.
func numbered(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("cp-%d", i))
	}
	return all
}

// golden is a document of internal/report's tests.
func golden(file string) fields {
	doc, err := os.ReadFile(filepath.Join("..", "..", "internal", "report", "testdata", file))
	if err != nil {
		panic(err)
	}
	var f fields
	if err := json.Unmarshal(doc, &f); err != nil {
		panic(err)
	}
	return f
}

// refused checks that the server refuses an object with words about a field.
func refused(t *testing.T, err error, field, words string) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("accepted")
	case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
		t.Errorf("not refused for what it holds: %v", err)
	case !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), words):
		t.Errorf("the server says %q, want words about %s: %q", err, field, words)
	case strings.Contains(err.Error(), "rule evaluation error"):
		t.Errorf("a rule breaks down: %v", err)
	}
}

const unchangeable = "providerName cannot be changed: make another plan"

func TestProviderOfAPlanCannotChange(t *testing.T) {
	plan := create(t, object("KMSRotationPlan", name(t, "plan"), fields{"spec": spec(nil)}))
	set := func(value any, path ...string) error {
		t.Helper()
		changed := plan.DeepCopy()
		if err := unstructured.SetNestedField(changed.Object, value, append([]string{"spec"}, path...)...); err != nil {
			t.Fatal(err)
		}
		err := env.client.Update(t.Context(), changed, strict)
		if err == nil {
			plan = changed
		}
		return err
	}
	refused(t, set("another", "providerName"), "spec.providerName", unchangeable)
	// Everything else follows the work.
	for _, err := range []error{
		set([]any{"cp-1", "cp-2", "cp-3"}, "nodes", "names"),
		set(int64(4), "targetTransitVersion"),
		set(map[string]any{"beforeVersion": int64(3)}, "retirement"),
		set("10m", "settleTime"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if got := plan.GetGeneration(); got != 5 {
		t.Errorf("generation %d after four changes, want 5", got)
	}
}

// TestScope: both kinds are cluster-scoped, in a category, with a short name.
func TestScope(t *testing.T) {
	list, err := env.api.Client().Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{"kmsrotationplans": "krp", "kmsnodereports": "knr"}
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		if r.Namespaced || fmt.Sprint(r.Categories) != "[baokms]" || fmt.Sprint(r.ShortNames) != "["+short[r.Name]+"]" {
			t.Errorf("%s: namespaced %t, categories %v, short names %v", r.Name, r.Namespaced, r.Categories, r.ShortNames)
		}
		delete(short, r.Name)
	}
	if len(short) != 0 {
		t.Errorf("the server does not serve %v", short)
	}
	if (v1alpha1.GroupVersion != schema.GroupVersion{Group: "kms.baokms.io", Version: "v1alpha1"}) {
		t.Errorf("the API is %s", v1alpha1.GroupVersion)
	}
}
