package setup

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/internal/provider/setup"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// manifest is the pod that init writes, read by the types of the API.
func manifest(t *testing.T, change func(*setup.Options)) *corev1.Pod {
	t.Helper()
	o := setup.Defaults()
	o.Dir, o.For, o.Image = filepath.Join(stacktest.Dir(t), "made"), setup.StaticPod, "registry.example.net/bao-kms-provider:v1.2.3"
	o.Address, o.InstanceID = "https://openbao.example.net:8200", "bao"
	o.TransitMount, o.TransitKey = "transit-kms", "workload-a"
	o.ProviderName, o.ClusterID, o.TransitMountID, o.KeyLineage = "openbao-kms", "a", "b", "c"
	o.JWTIssuer, o.JWTAudience, o.JWTSubject = "i", "a", "s"
	change(&o)
	_, err := setup.Init(o)
	must(t, err)
	raw, err := os.ReadFile(filepath.Join(o.Dir, "bao-kms-provider.yaml"))
	must(t, err)
	pod := new(corev1.Pod)
	must(t, yaml.UnmarshalStrict(raw, pod))
	return pod
}

func TestStaticPod(t *testing.T) {
	t.Parallel()
	pod := manifest(t, func(o *setup.Options) {
		o.UserID, o.GroupID, o.SocketGroup, o.ReportSocket, o.JWTFile = 980, 981, "970", true, "/run/issuer/openbao/jwt"
	})
	g := gomega.NewWithT(t)
	g.Expect(pod.Namespace).To(gomega.Equal("kube-system"))
	s := pod.Spec
	g.Expect(s.HostNetwork).To(gomega.BeTrue())
	g.Expect(s.DNSPolicy).To(gomega.Equal(corev1.DNSDefault))
	g.Expect(s.PriorityClassName).To(gomega.Equal("system-node-critical"))
	g.Expect(s.RestartPolicy).To(gomega.Equal(corev1.RestartPolicyAlways))
	g.Expect(*s.AutomountServiceAccountToken).To(gomega.BeFalse())
	g.Expect(*s.SecurityContext.RunAsNonRoot).To(gomega.BeTrue())
	g.Expect(*s.SecurityContext.RunAsUser).To(gomega.Equal(int64(980)))
	g.Expect(*s.SecurityContext.RunAsGroup).To(gomega.Equal(int64(981)))
	g.Expect(s.SecurityContext.SupplementalGroups).To(gomega.Equal([]int64{970}))
	g.Expect(s.SecurityContext.SeccompProfile.Type).To(gomega.Equal(corev1.SeccompProfileTypeRuntimeDefault))

	g.Expect(s.Containers).To(gomega.HaveLen(1))
	c := s.Containers[0]
	g.Expect(c.Args).To(gomega.Equal([]string{"serve"}))
	g.Expect(*c.SecurityContext.ReadOnlyRootFilesystem).To(gomega.BeTrue())
	g.Expect(*c.SecurityContext.AllowPrivilegeEscalation).To(gomega.BeFalse())
	g.Expect(c.SecurityContext.Capabilities.Drop).To(gomega.Equal([]corev1.Capability{"ALL"}))
	g.Expect(c.SecurityContext.Capabilities.Add).To(gomega.BeEmpty())
	g.Expect(c.LivenessProbe.HTTPGet.Path).To(gomega.Equal("/live"))
	g.Expect(c.LivenessProbe.HTTPGet.Host).To(gomega.Equal("127.0.0.1"))
	g.Expect(c.LivenessProbe.HTTPGet.Port.IntValue()).To(gomega.Equal(8082))
	g.Expect(c.ReadinessProbe).To(gomega.BeNil())
	g.Expect(c.StartupProbe).To(gomega.BeNil())

	// Each directory is mounted where the configuration looks for it; only what the provider writes to is writable.
	where := map[string]string{}
	for _, v := range s.Volumes {
		g.Expect(*v.HostPath.Type).To(gomega.Equal(corev1.HostPathDirectory), v.Name)
		where[v.Name] = v.HostPath.Path
	}
	readOnly := map[string]bool{}
	for _, m := range c.VolumeMounts {
		g.Expect(where).To(gomega.HaveKeyWithValue(m.Name, m.MountPath))
		readOnly[m.MountPath] = m.ReadOnly
	}
	g.Expect(readOnly).To(gomega.Equal(map[string]bool{
		"/etc/openbao-kms": true, "/run/issuer/openbao": true,
		"/var/lib/openbao-kms/state": false, "/run/openbao-kms": false, "/run/openbao-kms-report": false,
	}))
}

func TestStaticPodWithoutHealthAddress(t *testing.T) {
	t.Parallel()
	pod := manifest(t, func(o *setup.Options) { o.HealthAddress = "" })
	if pod.Spec.Containers[0].LivenessProbe != nil {
		t.Error("it probes an endpoint that is disabled")
	}
}

// TestAPIServerAcceptsThePod: kubelet shows a static pod to the API server, whose validation is kubelet's own.
func TestAPIServerAcceptsThePod(t *testing.T) {
	t.Parallel()
	api := stacktest.APIServer(t, stack.APIServerOptions{})
	for name, change := range map[string]func(*setup.Options){
		"least": func(*setup.Options) {},
		"most": func(o *setup.Options) {
			o.SocketGroup, o.ReportSocket, o.JWTFile, o.HealthAddress = "970", true, "/run/issuer/openbao/jwt", "[::1]:9082"
		},
	} {
		pod := manifest(t, change)
		// The namespace and the priority class are made by the API server itself, after its start.
		g := gomega.NewWithT(t)
		g.Eventually(func(ctx context.Context) error {
			got, err := api.Client().CoreV1().Pods("kube-system").Create(ctx, pod, metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
			})
			if err == nil && (got.Spec.Priority == nil || *got.Spec.Priority != 2000001000) {
				raw, _ := json.Marshal(got.Spec.Priority)
				t.Errorf("%s: the priority is %s", name, raw)
			}
			return err
		}, patience, "200ms").WithContext(t.Context()).Should(gomega.Succeed(), name)
	}
}
