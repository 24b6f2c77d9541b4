package chart

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestPodSecurity: by Kubernetes' own rules the manager's pod is restricted, and so
// is the reporter's but for the volume of the socket's directory.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(pod corev1.PodTemplateSpec) (checks []string) {
		for _, version := range []api.Version{api.MajorMinorVersion(1, 34), api.LatestVersion()} {
			for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: version}, &pod.ObjectMeta, &pod.Spec) {
				if !r.Allowed {
					checks = append(checks, r.ForbiddenReason+": "+r.ForbiddenDetail)
				}
			}
		}
		slices.Sort(checks)
		return slices.Compact(checks)
	}
	for _, c := range combinations {
		all := rendered(t, c.input)
		namespace := or(c.namespace, system)
		if all["Deployment/"+namespace+"/"+managerName] != nil {
			if got := refused(managerPod(t, all, namespace)); len(got) != 0 {
				t.Errorf("%s: the manager: %q", c.name, got)
			}
		}
		if all["DaemonSet/"+namespace+"/"+reporterName] != nil {
			pod := reporterPod(t, all, namespace)
			want := []string{`restricted volume types: volume "report-socket" uses restricted volume type "hostPath"`}
			if got := refused(pod); !slices.Equal(got, want) {
				t.Errorf("%s: the reporter: %q, want %q", c.name, got, want)
			}
			pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
			if got := refused(pod); len(got) != 0 {
				t.Errorf("%s: the reporter without the socket: %q", c.name, got)
			}
		}
	}
}

// TestHardening: what both pods have and no level of Pod Security asks for.
func TestHardening(t *testing.T) {
	for _, values := range []string{"", everything} {
		all := rendered(t, input{values: values})
		for name, pod := range map[string]corev1.PodTemplateSpec{managerName: managerPod(t, all, system), reporterName: reporterPod(t, all, system)} {
			s := pod.Spec
			if len(s.Containers) != 1 || len(s.InitContainers) != 0 || s.HostNetwork || s.HostPID || s.HostIPC {
				t.Fatalf("%s: %d containers, %d before, the node's namespaces %t %t %t", name, len(s.Containers), len(s.InitContainers), s.HostNetwork, s.HostPID, s.HostIPC)
			}
			c := s.Containers[0].SecurityContext
			if !*c.ReadOnlyRootFilesystem || *c.Privileged || *c.AllowPrivilegeEscalation ||
				!reflect.DeepEqual(c.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}) || c.RunAsUser != nil || c.RunAsNonRoot != nil {
				t.Errorf("%s: the container's security context is %+v", name, c)
			}
			if p := s.SecurityContext; !*p.RunAsNonRoot || *p.RunAsUser != 65532 || *p.RunAsGroup != 65532 || p.FSGroup != nil {
				t.Errorf("%s: the pod's security context is %+v", name, p)
			}
			if s.ServiceAccountName != name || !*s.AutomountServiceAccountToken || *s.EnableServiceLinks {
				t.Errorf("%s: account %q, token %t, links %t", name, s.ServiceAccountName, *s.AutomountServiceAccountToken, *s.EnableServiceLinks)
			}
			if s.Containers[0].Resources.Requests.Memory().IsZero() {
				t.Errorf("%s: no memory is asked for", name)
			}
		}
	}
}

// TestSocketDirectory: the reporter sees the directory of the socket, read-only, at the
// path that it has on the node, as one of the socket's group, and nothing else.
func TestSocketDirectory(t *testing.T) {
	for _, c := range []struct {
		values, socket, directory string
		group                     int64
	}{
		{"", "/run/openbao-kms-report/report.sock", "/run/openbao-kms-report", 10001},
		{everything, "/srv/keys/report/r.sock", "/srv/keys/report", 2147483646},
		{"reporter: {reportSocket: /var/run/a/b.sock, socketGroupID: 1000000}", "/var/run/a/b.sock", "/var/run/a", 1000000},
	} {
		pod := reporterPod(t, rendered(t, input{values: c.values}), system).Spec
		directory := corev1.HostPathDirectory
		volumes := []corev1.Volume{{Name: "report-socket", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: c.directory, Type: &directory}}}}
		if !reflect.DeepEqual(pod.Volumes, volumes) {
			t.Errorf("volumes %+v, want %+v", pod.Volumes, volumes)
		}
		mounts := []corev1.VolumeMount{{Name: "report-socket", MountPath: c.directory, ReadOnly: true}}
		if got := pod.Containers[0].VolumeMounts; !reflect.DeepEqual(got, mounts) {
			t.Errorf("mounts %+v, want %+v", got, mounts)
		}
		if !slices.Contains(pod.Containers[0].Args, "--report-socket="+c.socket) {
			t.Errorf("arguments %q", pod.Containers[0].Args)
		}
		if got := pod.SecurityContext.SupplementalGroups; !slices.Equal(got, []int64{c.group}) {
			t.Errorf("groups %v, want %d", got, c.group)
		}
	}
}

// TestArguments: the values are what the processes are told.
func TestArguments(t *testing.T) {
	digest := "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	remote := "manager: {kubeconfig: {secretName: far, key: kc}}\nreporter: {kubeconfig: {secretName: far, key: kc}}\ncrds: {install: false}\n"
	cases := []struct {
		name, values, image string
		manager, reporter   []string
	}{
		{"defaults", "", "bao-kms-manager:" + load(t).Metadata.AppVersion,
			[]string{"run", "--concurrency=4", "--log-format=json", "--log-level=info", "--metrics-address=:8443", "--probe-address=:8081"},
			[]string{"node-reporter", "--report-socket=/run/openbao-kms-report/report.sock", "--interval=30s", "--heartbeat=2m", "--log-format=json", "--log-level=info", "--probe-address=:8082"}},
		{"everything", everything, "registry.example.net:5000/keys/bao-kms-manager:v9.9.9@" + digest,
			[]string{"run", "--concurrency=9", "--log-format=text", "--log-level=debug", "--metrics-address=:9443", "--metrics-cert-dir=/etc/baokms-metrics", "--probe-address=:8081"},
			[]string{"node-reporter", "--report-socket=/srv/keys/report/r.sock", "--interval=10s", "--heartbeat=1m30s", "--log-format=text", "--log-level=debug", "--probe-address=:8082"}},
		{"a digest alone", "image: {repository: r/m, digest: '" + digest + "'}", "r/m@" + digest, nil, nil},
		{"a tag alone", "image: {repository: r/m, tag: v1}", "r/m:v1", nil, nil},
		{"no metrics", "manager: {metrics: {enabled: false, certificateSecretName: unused}}", "bao-kms-manager:" + load(t).Metadata.AppVersion,
			[]string{"run", "--concurrency=4", "--log-format=json", "--log-level=info", "--metrics-address=0", "--probe-address=:8081"}, nil},
		{"another cluster", remote, "bao-kms-manager:" + load(t).Metadata.AppVersion,
			[]string{"run", "--concurrency=4", "--log-format=json", "--log-level=info", "--metrics-address=:8443", "--probe-address=:8081", "--kubeconfig=/etc/baokms/kc"},
			[]string{"node-reporter", "--report-socket=/run/openbao-kms-report/report.sock", "--interval=30s", "--heartbeat=2m", "--log-format=json", "--log-level=info", "--probe-address=:8082", "--kubeconfig=/etc/baokms/kc"}},
	}
	for _, c := range cases {
		all := rendered(t, input{values: c.values})
		for name, got := range map[string]struct {
			pod  corev1.PodTemplateSpec
			want []string
		}{managerName: {managerPod(t, all, system), c.manager}, reporterName: {reporterPod(t, all, system), c.reporter}} {
			container := got.pod.Spec.Containers[0]
			if container.Image != c.image || container.Command != nil {
				t.Errorf("%s: %s runs %q with the entry point %q, want %q", c.name, name, container.Image, container.Command, c.image)
			}
			if got.want != nil && !slices.Equal(container.Args, got.want) {
				t.Errorf("%s: %s gets\n%q, want\n%q", c.name, name, container.Args, got.want)
			}
		}
	}
}

// TestAnotherCluster: with a kubeconfig a pod has it, and no token of this cluster.
func TestAnotherCluster(t *testing.T) {
	all := rendered(t, input{values: "manager: {kubeconfig: {secretName: far}}\nreporter: {kubeconfig: {secretName: near}}\ncrds: {install: false}"})
	for secret, pod := range map[string]corev1.PodSpec{"far": managerPod(t, all, system).Spec, "near": reporterPod(t, all, system).Spec} {
		if *pod.AutomountServiceAccountToken {
			t.Errorf("the pod with the kubeconfig %s has a token", secret)
		}
		volume := pod.Volumes[len(pod.Volumes)-1]
		if volume.Secret == nil || volume.Secret.SecretName != secret || volume.Name != "kubeconfig" {
			t.Errorf("volume %+v", volume)
		}
		mount := pod.Containers[0].VolumeMounts[len(pod.Volumes)-1]
		if want := (corev1.VolumeMount{Name: "kubeconfig", MountPath: "/etc/baokms", ReadOnly: true}); !reflect.DeepEqual(mount, want) {
			t.Errorf("mount %+v", mount)
		}
	}
}

// TestProbes: they ask the port that the arguments open, and only what a restart, or
// fewer connections, would help.
func TestProbes(t *testing.T) {
	all := rendered(t, input{})
	for port, pod := range map[int32]corev1.PodSpec{8081: managerPod(t, all, system).Spec, 8082: reporterPod(t, all, system).Spec} {
		c := pod.Containers[0]
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "probes" })
		if i < 0 || c.Ports[i].ContainerPort != port || c.Ports[i].HostPort != 0 {
			t.Fatalf("ports %+v", c.Ports)
		}
		if live := c.LivenessProbe.HTTPGet; live.Path != "/healthz" || live.Port.StrVal != "probes" {
			t.Errorf("liveness %+v", live)
		}
		if ready := c.ReadinessProbe.HTTPGet; ready.Path != "/readyz" || ready.Port.StrVal != "probes" {
			t.Errorf("readiness %+v", ready)
		}
	}
	name := reporterPod(t, all, system).Spec.Containers[0].Env
	if len(name) != 1 || name[0].Name != "NODE_NAME" || name[0].ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Errorf("environment %+v", name)
	}
}
