package chart

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestService: Prometheus reaches the port that the manager opens.
func TestService(t *testing.T) {
	for values, port := range map[string]int32{"": 8443, everything: 9443} {
		all := rendered(t, input{values: values})
		s := one[*corev1.Service](t, all, "Service/"+system+"/bao-kms-manager-metrics")
		want := []corev1.ServicePort{{Name: "metrics", Port: port, TargetPort: intstr.FromString("metrics")}}
		if !reflect.DeepEqual(s.Spec.Ports, want) || s.Spec.Type != "" {
			t.Errorf("ports %+v, type %q", s.Spec.Ports, s.Spec.Type)
		}
		pod := managerPod(t, all, system).Spec.Containers[0]
		if pod.Ports[0].Name != "metrics" || pod.Ports[0].ContainerPort != port {
			t.Errorf("the pod's ports are %+v", pod.Ports)
		}
	}
}

// TestReaders: those who are named may read metrics, and nobody else.
func TestReaders(t *testing.T) {
	b := one[*rbacv1.ClusterRoleBinding](t, rendered(t, input{values: everything}), "ClusterRoleBinding/bao-kms-manager-metrics-reader")
	want := []rbacv1.Subject{
		{Kind: "ServiceAccount", Name: "prometheus-k8s", Namespace: "monitoring"},
		{Kind: "ServiceAccount", Name: "other", Namespace: "elsewhere"},
	}
	if !reflect.DeepEqual(b.Subjects, want) || b.RoleRef.Name != "bao-kms-manager-metrics-reader" || b.RoleRef.Kind != "ClusterRole" {
		t.Errorf("binding %+v", b)
	}
}

// TestServiceMonitor: by the operator's documented shape, since its kind is not here.
func TestServiceMonitor(t *testing.T) {
	endpoint := func(values string) map[string]any {
		t.Helper()
		monitor := rendered(t, input{namespace: "keys", values: values})["ServiceMonitor/keys/bao-kms-manager"]
		if monitor.GetAPIVersion() != "monitoring.coreos.com/v1" {
			t.Errorf("version %s", monitor.GetAPIVersion())
		}
		return monitor.Object["spec"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)
	}
	want := map[string]any{
		"port": "metrics", "scheme": "https", "path": "/metrics", "interval": "15s",
		"authorization": map[string]any{"type": "Bearer", "credentials": map[string]any{"name": "scrape", "key": "bearer"}},
		"tlsConfig": map[string]any{
			"serverName": "bao-kms-manager-metrics.keys.svc",
			"ca":         map[string]any{"secret": map[string]any{"name": "metrics-tls", "key": "ca.crt"}},
		},
	}
	if got := endpoint(everything); !reflect.DeepEqual(got, want) {
		t.Errorf("endpoint %v, want %v", got, want)
	}
	delete(want, "authorization")
	want["interval"], want["bearerTokenFile"] = "30s", "/var/run/secrets/kubernetes.io/serviceaccount/token"
	want["tlsConfig"] = map[string]any{"serverName": "bao-kms-manager-metrics.keys.svc", "insecureSkipVerify": true}
	if got := endpoint("manager: {metrics: {serviceMonitor: {enabled: true, insecureSkipVerify: true}}}"); !reflect.DeepEqual(got, want) {
		t.Errorf("endpoint %v, want %v", got, want)
	}
	monitor := rendered(t, input{values: everything})["ServiceMonitor/"+system+"/bao-kms-manager"]
	if monitor.GetLabels()["release"] != "prometheus" {
		t.Errorf("labels %v", monitor.GetLabels())
	}
}

// TestCertificate: the manager serves the certificate that the values name.
func TestCertificate(t *testing.T) {
	pod := managerPod(t, rendered(t, input{values: everything}), system).Spec
	if len(pod.Volumes) != 1 || pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "metrics-tls" {
		t.Errorf("volumes %+v", pod.Volumes)
	}
	want := []corev1.VolumeMount{{Name: "metrics-certificate", MountPath: "/etc/baokms-metrics", ReadOnly: true}}
	if got := pod.Containers[0].VolumeMounts; !reflect.DeepEqual(got, want) {
		t.Errorf("mounts %+v", got)
	}
	if pod := managerPod(t, rendered(t, input{}), system).Spec; pod.Volumes != nil || pod.Containers[0].VolumeMounts != nil {
		t.Errorf("by default it has volumes %+v", pod.Volumes)
	}
}

// TestNetworkPolicies: metrics from those who are named, nothing to the reporters, and
// out only to the API servers once they are named.
func TestNetworkPolicies(t *testing.T) {
	of := func(values, name string) networkingv1.NetworkPolicySpec {
		t.Helper()
		p := one[*networkingv1.NetworkPolicy](t, rendered(t, input{values: values}), "NetworkPolicy/"+system+"/"+name)
		p.Spec.PodSelector.MatchLabels = nil // TestEverySelectorSelects
		return p.Spec
	}
	metrics, api := intstr.FromString("metrics"), intstr.FromInt32(6443)
	in := []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &metrics}}}}
	out := []networkingv1.NetworkPolicyEgressRule{{
		Ports: []networkingv1.NetworkPolicyPort{{Port: &api}},
		To:    []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/28"}}, {IPBlock: &networkingv1.IPBlock{CIDR: "2001:db8::/64"}}},
	}}
	ingress, both := []networkingv1.PolicyType{"Ingress"}, []networkingv1.PolicyType{"Ingress", "Egress"}
	const on = "networkPolicy: {enabled: true}"
	for _, c := range []struct {
		values, name string
		want         networkingv1.NetworkPolicySpec
	}{
		{on, managerName, networkingv1.NetworkPolicySpec{PolicyTypes: ingress, Ingress: in}},
		{on, reporterName, networkingv1.NetworkPolicySpec{PolicyTypes: ingress}},
		{on + "\nmanager: {metrics: {enabled: false}}", managerName, networkingv1.NetworkPolicySpec{PolicyTypes: ingress}},
		{everything, reporterName, networkingv1.NetworkPolicySpec{PolicyTypes: both, Egress: out}},
	} {
		if got := of(c.values, c.name); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s with %.40q:\n%+v, want\n%+v", c.name, c.values, got, c.want)
		}
	}
	from := of(everything, managerName)
	if len(from.Ingress) != 1 || len(from.Ingress[0].From) != 1 || from.Ingress[0].From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "monitoring" {
		t.Errorf("metrics from %+v", from.Ingress)
	}
}
