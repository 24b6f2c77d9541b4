package chart

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
)

const (
	root      = "../../.."
	chartPath = root + "/charts/baokms"
	// system is the namespace of config/.
	system = "baokms-system"
	// The names of config/, which the chart's objects have whatever the release is
	// called.
	managerName  = "bao-kms-manager"
	reporterName = "bao-kms-node-reporter"
)

// load reads the chart as Helm does.
func load(t *testing.T) *chartv2.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// input is what a release is rendered from.
type input struct {
	// release and namespace: empty means baokms in baokms-system.
	release, namespace string
	// values is YAML, as in a file that --values names.
	values string
	// kubernetes is the cluster's version; empty is the oldest that the chart takes.
	kubernetes string
}

// render renders a release without a cluster.
func render(t *testing.T, in input) (*release.Release, error) {
	t.Helper()
	version, err := common.ParseKubeVersion(or(in.kubernetes, "v1.34.0"))
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = or(in.release, "baokms"), or(in.namespace, system)
	install.KubeVersion = version
	made, err := install.Run(load(t), parse(t, in.values))
	if err != nil {
		return nil, err
	}
	return made.(*release.Release), nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// parse reads values.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// objects are what a release consists of, by kind, namespace and name.
type objects map[string]*unstructured.Unstructured

// rendered renders a release that must be rendered.
func rendered(t *testing.T, in input) objects {
	t.Helper()
	made, err := render(t, in)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Hooks) != 0 {
		t.Errorf("the chart has %d hooks", len(made.Hooks))
	}
	all := objects{}
	for _, o := range documents(t, made.Manifest) {
		if all[key(o)] != nil {
			t.Errorf("%s is rendered twice", key(o))
		}
		all[key(o)] = o
	}
	return all
}

// key names an object: Kind/name, or Kind/namespace/name.
func key(o *unstructured.Unstructured) string {
	return strings.Join(strings.FieldsFunc(o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName(), func(r rune) bool { return r == '/' }), "/")
}

// documents decodes YAML documents.
func documents(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range strings.Split("\n"+text, "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if o.Object != nil {
			all = append(all, o)
		}
	}
	return all
}

// kinds knows Kubernetes' own kinds and CRDs.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

// typed decodes an object into its type; a field that the type has not is an error.
func typed(t *testing.T, o *unstructured.Unstructured) runtime.Object {
	t.Helper()
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", key(o), err)
	}
	return made
}

// one is the object of a release with that key.
func one[O runtime.Object](t *testing.T, all objects, key string) O {
	t.Helper()
	if all[key] == nil {
		t.Fatalf("the release lacks %s; it has %v", key, all.keys())
	}
	made, ok := typed(t, all[key]).(O)
	if !ok {
		t.Fatalf("%s is not a %T", key, made)
	}
	return made
}

// keys are what a release consists of.
func (o objects) keys() []string {
	all := make([]string, 0, len(o))
	for key := range o {
		all = append(all, key)
	}
	return all
}

// ofGroup are a release's objects of an API group.
func (o objects) ofGroup(group string) objects {
	some := objects{}
	for key, object := range o {
		if schema.FromAPIVersionAndKind(object.GetAPIVersion(), object.GetKind()).Group == group {
			some[key] = object
		}
	}
	return some
}

// managerPod and reporterPod are what the release runs.
func managerPod(t *testing.T, all objects, namespace string) corev1.PodTemplateSpec {
	t.Helper()
	return one[*appsv1.Deployment](t, all, "Deployment/"+namespace+"/"+managerName).Spec.Template
}

func reporterPod(t *testing.T, all objects, namespace string) corev1.PodTemplateSpec {
	t.Helper()
	return one[*appsv1.DaemonSet](t, all, "DaemonSet/"+namespace+"/"+reporterName).Spec.Template
}

// fromConfig are the objects of a file of config/.
func fromConfig(t *testing.T, file string) objects {
	t.Helper()
	all := objects{}
	for _, o := range documents(t, read(t, filepath.Join(root, "config", file))) {
		all[key(o)] = o
	}
	if len(all) == 0 {
		t.Fatal(fmt.Errorf("config/%s holds no object", file))
	}
	return all
}
