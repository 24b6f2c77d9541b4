package chart

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestPlacement: where the pods are, how many, and how they are replaced.
func TestPlacement(t *testing.T) {
	all := rendered(t, input{release: "r"})
	selector := map[string]string{"app.kubernetes.io/name": managerName, "app.kubernetes.io/instance": "r"}
	d := one[*appsv1.Deployment](t, all, "Deployment/"+system+"/"+managerName)
	if *d.Spec.Replicas != 2 || !reflect.DeepEqual(d.Spec.Selector.MatchLabels, selector) || *d.Spec.Template.Spec.TerminationGracePeriodSeconds != 40 {
		t.Errorf("%d replicas of %v, %d s to end", *d.Spec.Replicas, d.Spec.Selector, *d.Spec.Template.Spec.TerminationGracePeriodSeconds)
	}
	var keys []string
	for _, s := range d.Spec.Template.Spec.TopologySpreadConstraints {
		keys = append(keys, s.TopologyKey)
		if s.MaxSkew != 1 || s.WhenUnsatisfiable != corev1.ScheduleAnyway || !reflect.DeepEqual(s.LabelSelector.MatchLabels, selector) {
			t.Errorf("spread %+v", s)
		}
	}
	if !slices.Equal(keys, []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}) {
		t.Errorf("spread over %v", keys)
	}
	budget := one[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget/"+system+"/"+managerName)
	if budget.Spec.MaxUnavailable.IntVal != 1 || !reflect.DeepEqual(budget.Spec.Selector.MatchLabels, selector) || *budget.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
		t.Errorf("budget %+v", budget.Spec)
	}

	r := one[*appsv1.DaemonSet](t, all, "DaemonSet/"+system+"/"+reporterName)
	if r.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntVal != 1 {
		t.Errorf("update %+v", r.Spec.UpdateStrategy)
	}
	const label = "node-role.kubernetes.io/control-plane"
	tolerations := []corev1.Toleration{{Key: label, Operator: corev1.TolerationOpExists}}
	if got := r.Spec.Template.Spec.Tolerations; !reflect.DeepEqual(got, tolerations) {
		t.Errorf("tolerations %+v", got)
	}
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpExists}}}}
	if got := r.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; !reflect.DeepEqual(got, terms) {
		t.Errorf("affinity %+v", got)
	}
}

// TestChosen: what the values say about the pods is what they have; the labels that
// select them cannot be changed.
func TestChosen(t *testing.T) {
	all := rendered(t, input{values: everything})
	d := one[*appsv1.Deployment](t, all, "Deployment/"+system+"/"+managerName)
	m, r := managerPod(t, all, system), reporterPod(t, all, system)
	if *d.Spec.Replicas != 3 || m.Labels["team"] != "keys" || m.Labels["app.kubernetes.io/name"] != managerName || m.Annotations["example.net/note"] != "5" {
		t.Errorf("%d replicas, %v, %v", *d.Spec.Replicas, m.Labels, m.Annotations)
	}
	if r.Labels["team"] != "nodes" || r.Annotations["example.net/note"] != "r" || r.Spec.NodeSelector["keys"] != "true" || r.Spec.Affinity != nil {
		t.Errorf("%v, %v, %v, %+v", r.Labels, r.Annotations, r.Spec.NodeSelector, r.Spec.Affinity)
	}
	if m.Spec.PriorityClassName != "important" || r.Spec.PriorityClassName != "system-node-critical" {
		t.Errorf("classes %q and %q", m.Spec.PriorityClassName, r.Spec.PriorityClassName)
	}
	for _, pod := range []corev1.PodSpec{m.Spec, r.Spec} {
		if len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != "registry" || pod.Containers[0].ImagePullPolicy != corev1.PullAlways {
			t.Errorf("pull secrets %v, policy %s", pod.ImagePullSecrets, pod.Containers[0].ImagePullPolicy)
		}
	}
	if got := m.Spec.TopologySpreadConstraints; len(got) != 1 || got[0].TopologyKey != "rack" {
		t.Errorf("spread %+v", got)
	}
	if got := m.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution; len(got) != 1 {
		t.Errorf("affinity %+v", got)
	}
	if got := m.Spec.Containers[0].Resources; !got.Requests.Cpu().Equal(resource.MustParse("1")) || !got.Limits.Memory().Equal(resource.MustParse("1Gi")) {
		t.Errorf("resources %+v", got)
	}
	if got := r.Spec.Containers[0].SecurityContext.SELinuxOptions; !reflect.DeepEqual(got, &corev1.SELinuxOptions{Type: "container_t"}) {
		t.Errorf("SELinux %+v", got)
	}
	update := one[*appsv1.DaemonSet](t, all, "DaemonSet/"+system+"/"+reporterName).Spec.UpdateStrategy.RollingUpdate
	if update.MaxUnavailable.StrVal != "25%" {
		t.Errorf("update %+v", update)
	}
	budget := one[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget/"+system+"/"+managerName)
	if budget.Spec.MaxUnavailable.IntVal != 2 {
		t.Errorf("budget %+v", budget.Spec)
	}
}

// TestEverySelectorSelects: what chooses the manager's pods chooses them and not the
// reporter's.
func TestEverySelectorSelects(t *testing.T) {
	all := rendered(t, input{values: everything})
	pods := map[string]map[string]string{managerName: managerPod(t, all, system).Labels, reporterName: reporterPod(t, all, system).Labels}
	selects := func(what string, matchLabels map[string]string, want string) {
		t.Helper()
		s, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: matchLabels})
		if err != nil {
			t.Fatal(err)
		}
		for name, l := range pods {
			if got := s.Matches(labels.Set(l)); got != (name == want) || len(matchLabels) == 0 {
				t.Errorf("%s: it selects %s: %t", what, name, got)
			}
		}
	}
	for key, o := range all {
		want := managerName
		if strings.HasSuffix(key, "/"+reporterName) {
			want = reporterName
		}
		spec, _ := o.Object["spec"].(map[string]any)
		for _, field := range []string{"selector", "podSelector"} {
			chosen, ok := spec[field].(map[string]any)
			if !ok {
				continue
			}
			if inner, ok := chosen["matchLabels"].(map[string]any); ok {
				chosen = inner
			}
			matchLabels := map[string]string{}
			for k, v := range chosen {
				matchLabels[k] = v.(string)
			}
			if o.GetKind() == "ServiceMonitor" {
				// It selects the Service.
				if service := all["Service/"+system+"/bao-kms-manager-metrics"].GetLabels(); service["app.kubernetes.io/name"] != matchLabels["app.kubernetes.io/name"] {
					t.Errorf("%s selects %v, the service has %v", key, matchLabels, service)
				}
			}
			selects(key, matchLabels, want)
		}
	}
}
