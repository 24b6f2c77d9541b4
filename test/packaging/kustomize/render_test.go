package kustomize

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	manager  = "Deployment baokms-system/bao-kms-manager"
	reporter = "DaemonSet baokms-system/bao-kms-node-reporter"
)

// managerObjects are those of config/manager with the kinds, but for the reporters' rights.
var managerObjects = []string{
	"ClusterRole bao-kms-manager", "ClusterRole bao-kms-manager-metrics-reader", "ClusterRole bao-kms-node-reporter",
	"ClusterRoleBinding bao-kms-manager",
	"CustomResourceDefinition kmsnodereports.kms.baokms.io", "CustomResourceDefinition kmsrotationplans.kms.baokms.io",
	manager, "Namespace baokms-system", "PodDisruptionBudget baokms-system/bao-kms-manager",
	"Role baokms-system/bao-kms-manager", "Role default/bao-kms-manager",
	"RoleBinding baokms-system/bao-kms-manager", "RoleBinding default/bao-kms-manager",
	"Service baokms-system/bao-kms-manager-metrics", "ServiceAccount baokms-system/bao-kms-manager",
}

func TestWhatIsRendered(t *testing.T) {
	cases := []struct {
		folder string
		want   []string
	}{
		{"default", append([]string{
			"ClusterRoleBinding bao-kms-node-reporter", reporter, "ServiceAccount baokms-system/bao-kms-node-reporter",
			"ValidatingAdmissionPolicy bao-kms-node-reporter", "ValidatingAdmissionPolicyBinding bao-kms-node-reporter",
		}, managerObjects...)},
		{"manager-only", append([]string{
			"ClusterRoleBinding bao-kms-remote-reporters", "Namespace baokms-reporters",
			"ValidatingAdmissionPolicy bao-kms-remote-reporters", "ValidatingAdmissionPolicyBinding bao-kms-remote-reporters",
		}, managerObjects...)},
		{"reporter", []string{reporter}},
		{"prometheus", []string{"ServiceMonitor baokms-system/bao-kms-manager"}},
	}
	for _, c := range cases {
		t.Run(c.folder, func(t *testing.T) {
			slices.Sort(c.want)
			if got := names(config(t, c.folder)); !slices.Equal(got, c.want) {
				t.Errorf("it renders %q, want %q", got, c.want)
			}
		})
	}
}

// selects checks that a selector matches the labels of one kind of pod and not the other's.
func selects(t *testing.T, what string, selector *metav1.LabelSelector, mine, other map[string]string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if s.Empty() || !s.Matches(labels.Set(mine)) || s.Matches(labels.Set(other)) {
		t.Errorf("the selector of %s, %s, is not for the pods %v alone", what, s, mine)
	}
}

// TestSelectors: what chooses pods chooses the manager's, or the reporters', and never both.
func TestSelectors(t *testing.T) {
	all := config(t, "default")
	m, r := get[appsv1.Deployment](t, all, manager), get[appsv1.DaemonSet](t, all, reporter)
	managers, reporters := m.Spec.Template.Labels, r.Spec.Template.Labels
	selects(t, "the Deployment", m.Spec.Selector, managers, reporters)
	selects(t, "the DaemonSet", r.Spec.Selector, reporters, managers)
	selects(t, "the budget", get[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget baokms-system/bao-kms-manager").Spec.Selector, managers, reporters)
	for _, spread := range m.Spec.Template.Spec.TopologySpreadConstraints {
		selects(t, "the spread over "+spread.TopologyKey, spread.LabelSelector, managers, reporters)
	}
	service := get[corev1.Service](t, all, "Service baokms-system/bao-kms-manager-metrics")
	selects(t, "the Service", &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, managers, reporters)
	if port := service.Spec.Ports[0]; portNamed(t, &m.Spec.Template.Spec, port.TargetPort.StrVal) != port.Port {
		t.Errorf("the Service's port %s is not one of the pod", port.Name)
	}
	monitor := get[monitoringv1.ServiceMonitor](t, config(t, "prometheus"), "ServiceMonitor baokms-system/bao-kms-manager")
	selects(t, "the ServiceMonitor", &monitor.Spec.Selector, service.Labels, reporters)
	e := monitor.Spec.Endpoints
	if len(e) != 1 || e[0].Port != service.Spec.Ports[0].Name || e[0].Scheme == nil || e[0].Scheme.String() != "https" || e[0].Path != "/metrics" ||
		monitor.Namespace != service.Namespace || monitor.Spec.NamespaceSelector.Any {
		t.Errorf("the ServiceMonitor does not scrape the Service over HTTPS: %+v", e)
	}
	// What replaces it in newer operators needs a Secret that only the platform's engineer can make.
	raw := config(t, "prometheus")[0].Object["spec"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)
	if token := raw["bearerTokenFile"]; token != "/var/run/secrets/kubernetes.io/serviceaccount/token" {
		t.Errorf("the ServiceMonitor signs in with %v", token)
	}
}

// portNamed is the container port of a name, 0 without one.
func portNamed(t *testing.T, pod *corev1.PodSpec, name string) int32 {
	t.Helper()
	for _, p := range pod.Containers[0].Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// TestBindings: every binding is for a role and a service account that are there, and every pod runs as one of them.
func TestBindings(t *testing.T) {
	for _, folder := range []string{"default", "manager-only"} {
		t.Run(folder, func(t *testing.T) { checkBindings(t, config(t, folder)) })
	}
}

func checkBindings(t *testing.T, all []object) {
	t.Helper()
	there := names(all)
	need := func(who, what string) {
		t.Helper()
		if !slices.Contains(there, what) {
			t.Errorf("%s needs %s, which is not there", who, what)
		}
	}
	namespaces := map[string]bool{"default": true}
	for _, n := range decodeAll[corev1.Namespace](t, all, "Namespace") {
		namespaces[n.Name] = true
	}
	subjects := func(who string, all []rbacv1.Subject) {
		t.Helper()
		for _, s := range all {
			if s.Kind == rbacv1.ServiceAccountKind {
				need(who, "ServiceAccount "+s.Namespace+"/"+s.Name)
			} else if group, ok := strings.CutPrefix(s.Name, "system:serviceaccounts:"); !ok || !namespaces[group] {
				t.Errorf("%s is for %s %s, which is no namespace here", who, s.Kind, s.Name)
			}
		}
	}
	for _, b := range decodeAll[rbacv1.RoleBinding](t, all, "RoleBinding") {
		need("RoleBinding "+b.Name, b.RoleRef.Kind+" "+b.Namespace+"/"+b.RoleRef.Name)
		subjects("RoleBinding "+b.Name, b.Subjects)
	}
	for _, b := range decodeAll[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding") {
		need("ClusterRoleBinding "+b.Name, b.RoleRef.Kind+" "+b.RoleRef.Name)
		subjects("ClusterRoleBinding "+b.Name, b.Subjects)
	}
	for _, o := range all {
		if n := o.GetNamespace(); n != "" && !namespaces[n] {
			t.Errorf("%s is in a namespace that is not there", name(o))
		}
		if pod := podOf(t, o); pod != nil {
			need(name(o), "ServiceAccount "+o.GetNamespace()+"/"+pod.Spec.ServiceAccountName)
		}
	}
}

// podOf is the pod of a workload, nil of anything else.
func podOf(t *testing.T, o object) *corev1.PodTemplateSpec {
	t.Helper()
	switch o.GetKind() {
	case "Deployment":
		return &decode[appsv1.Deployment](t, o).Spec.Template
	case "DaemonSet":
		return &decode[appsv1.DaemonSet](t, o).Spec.Template
	}
	return nil
}

// TestNamespaceOverlay: an overlay moves all but the role for Events, and everything still fits together.
func TestNamespaceOverlay(t *testing.T) {
	const namespaceFile = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: baokms-namespace
  annotations: {config.kubernetes.io/local-config: "true"}
data:
  namespace: kms-watch
`
	for _, folder := range []string{"default", "manager-only"} {
		t.Run(folder, func(t *testing.T) {
			moved := render(t, overlay(t, map[string]string{
				"namespace.yaml": namespaceFile,
				"kustomization.yaml": "resources: [CONFIG/" + folder + ", CONFIG/prometheus, namespace.yaml]\n" +
					"components: [CONFIG/namespace]\n",
			}))
			var want []string
			for _, n := range append(names(config(t, folder)), names(config(t, "prometheus"))...) {
				want = append(want, strings.ReplaceAll(n, "baokms-system", "kms-watch"))
			}
			slices.Sort(want)
			if got := names(moved); !slices.Equal(got, want) {
				t.Errorf("it renders %q, want %q", got, want)
			}
			checkBindings(t, moved)
			for _, o := range moved {
				text, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), "baokms-system") {
					t.Errorf("%s still names baokms-system", name(o))
				}
			}
		})
	}
}

// TestANamespaceInAnOverlayBreaksEvents shows why config/namespace is there: kustomize's own field moves the role for Events, too.
func TestANamespaceInAnOverlayBreaksEvents(t *testing.T) {
	dir := overlay(t, map[string]string{"kustomization.yaml": "resources: [CONFIG/rbac]\nnamespace: kms-watch\n"})
	defer func() {
		if t.Failed() {
			t.Log("config/namespace and the warnings in config/*/kustomization.yaml may no longer be needed")
		}
	}()
	resources, err := tryRender(dir)
	if err == nil && slices.Contains(resources, "Role default/bao-kms-manager") {
		t.Errorf("kustomize leaves the role in default: %q", resources)
	}
}

// TestImageOverlay: one entry sets the image of both pods.
func TestImageOverlay(t *testing.T) {
	const digest = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	all := render(t, overlay(t, map[string]string{"kustomization.yaml": "resources: [CONFIG/default]\n" +
		"images: [{name: bao-kms-manager, newName: registry.example.net/bao-kms-manager, digest: \"" + digest + "\"}]\n"}))
	for _, o := range all {
		if pod := podOf(t, o); pod != nil && pod.Spec.Containers[0].Image != "registry.example.net/bao-kms-manager@"+digest {
			t.Errorf("%s runs %s", name(o), pod.Spec.Containers[0].Image)
		}
	}
}

// TestNamespaces: the manager's namespace is held to restricted unless reporters run in it, and warns of more in any case.
func TestNamespaces(t *testing.T) {
	const label = "pod-security.kubernetes.io/"
	cases := []struct{ folder, namespace, enforce string }{
		{"default", "baokms-system", "privileged"},
		{"manager-only", "baokms-system", "restricted"},
		{"manager-only", "baokms-reporters", "restricted"},
	}
	for _, c := range cases {
		n := get[corev1.Namespace](t, config(t, c.folder), "Namespace "+c.namespace)
		if want := map[string]string{label + "enforce": c.enforce, label + "audit": "restricted", label + "warn": "restricted"}; !reflect.DeepEqual(n.Labels, want) {
			t.Errorf("%s: %s has the labels %v, want %v", c.folder, c.namespace, n.Labels, want)
		}
	}
}
