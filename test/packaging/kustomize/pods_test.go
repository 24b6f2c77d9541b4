package kustomize

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// restricted are the rules of Pod Security that a pod breaks at the level restricted.
func restricted(t *testing.T, pod *corev1.PodTemplateSpec) []string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var broken []string
	for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			broken = append(broken, r.ForbiddenReason+": "+r.ForbiddenDetail)
		}
	}
	return broken
}

// TestPodSecurity: the manager keeps to restricted, and the reporter in all but its volume.
func TestPodSecurity(t *testing.T) {
	all := config(t, "default")
	if broken := restricted(t, &get[appsv1.Deployment](t, all, manager).Spec.Template); broken != nil {
		t.Errorf("the manager breaks %q", broken)
	}
	pod := get[appsv1.DaemonSet](t, all, reporter).Spec.Template
	want := []string{`restricted volume types: volume "report" uses restricted volume type "hostPath"`}
	if broken := restricted(t, &pod); !slices.Equal(broken, want) {
		t.Errorf("the reporter breaks %q, want %q", broken, want)
	}
	pod.Spec.Volumes = nil
	if broken := restricted(t, &pod); broken != nil {
		t.Errorf("without its volume the reporter breaks %q", broken)
	}
}

// TestPods holds what Pod Security does not ask for.
func TestPods(t *testing.T) {
	for _, o := range config(t, "default") {
		template := podOf(t, o)
		if template == nil {
			continue
		}
		pod := template.Spec
		if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
			t.Fatalf("%s has more than one container", name(o))
		}
		c := pod.Containers[0]
		if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s may write to its root", name(o))
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || !c.Resources.Limits.Cpu().IsZero() {
			t.Errorf("%s: it has a limit of memory, a request, and is not throttled; not %+v", name(o), c.Resources)
		}
		for what, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet.Path != what || portNamed(t, &pod, probe.HTTPGet.Port.StrVal) == 0 {
				t.Errorf("%s: its probe of %s is %+v", name(o), what, probe)
			}
		}
		if pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Errorf("%s is in a namespace of its host", name(o))
		}
	}
}

func TestTheManager(t *testing.T) {
	all := config(t, "default")
	m := get[appsv1.Deployment](t, all, manager)
	if *m.Spec.Replicas != 2 || len(m.Spec.Template.Spec.Volumes) != 0 || len(m.Spec.Template.Spec.TopologySpreadConstraints) == 0 {
		t.Errorf("the manager has %d replicas, volumes %v, spread %v", *m.Spec.Replicas, m.Spec.Template.Spec.Volumes, m.Spec.Template.Spec.TopologySpreadConstraints)
	}
	budget := get[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget baokms-system/bao-kms-manager").Spec
	if budget.MaxUnavailable.IntValue() != 1 || budget.MinAvailable != nil || *budget.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
		t.Errorf("the budget is %+v", budget)
	}
}

// TestTheReporter: where it runs, and that it has the directory of the report socket and nothing else of its node.
func TestTheReporter(t *testing.T) {
	const controlPlane = "node-role.kubernetes.io/control-plane"
	r := get[appsv1.DaemonSet](t, config(t, "default"), reporter)
	pod, c := r.Spec.Template.Spec, r.Spec.Template.Spec.Containers[0]
	if _, ok := pod.NodeSelector[controlPlane]; !ok || len(pod.NodeSelector) != 1 {
		t.Errorf("it runs on nodes with %v", pod.NodeSelector)
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		if taint := (corev1.Taint{Key: controlPlane, Effect: effect}); !slices.ContainsFunc(pod.Tolerations, func(x corev1.Toleration) bool {
			return x.Key == taint.Key && x.Operator == corev1.TolerationOpExists && (x.Effect == "" || x.Effect == taint.Effect)
		}) {
			t.Errorf("a control-plane node with the taint %s keeps it away", effect)
		}
	}
	if u := r.Spec.UpdateStrategy.RollingUpdate; u == nil || u.MaxUnavailable.IntValue() != 1 {
		t.Errorf("an update takes %+v", u)
	}
	if len(pod.Volumes) != 1 || len(c.VolumeMounts) != 1 {
		t.Fatalf("it has the volumes %+v, mounts %+v", pod.Volumes, c.VolumeMounts)
	}
	path, mount := pod.Volumes[0].HostPath, c.VolumeMounts[0]
	if path == nil || *path.Type != corev1.HostPathDirectory || !mount.ReadOnly || mount.MountPath != path.Path || mount.Name != pod.Volumes[0].Name {
		t.Errorf("the volume is %+v, mounted as %+v", path, mount)
	}
	socket := ""
	for _, a := range c.Args {
		if s, ok := strings.CutPrefix(a, "--report-socket="); ok {
			socket = s
		}
	}
	if filepath.Dir(socket) != mount.MountPath {
		t.Errorf("the socket %q is not in the directory %s that is mounted", socket, mount.MountPath)
	}
	// Where init puts it, in a directory of its own.
	if want := "/run/openbao-kms-report/report.sock"; socket != want {
		t.Errorf("the socket is %s; bao-kms-provider init makes %s", socket, want)
	}
	if e := c.Env; len(e) != 1 || e[0].Name != "NODE_NAME" || e[0].ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Errorf("its environment is %+v", e)
	}
}

// TestArguments: the built binary knows every flag of both pods, and their values.
func TestArguments(t *testing.T) {
	for _, o := range config(t, "default") {
		pod := podOf(t, o)
		if pod == nil {
			continue
		}
		c := pod.Spec.Containers[0]
		if len(c.Command) != 0 {
			t.Errorf("%s does not run what the image runs", name(o))
		}
		if out, err := help(t, c.Args...); err != nil {
			t.Errorf("%s: %v\n%s", name(o), err, out)
		}
	}
	// That --help refuses a flag which is not there makes the above mean something.
	if out, err := help(t, "run", "--dance"); err == nil {
		t.Errorf("it accepts any flag: %s", out)
	}
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "bin", "bao-kms-manager"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func help(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary(t), append(args, "--help")...).CombinedOutput()
	return string(out), err
}
