package chart

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What a release consists of, by part. NS is its namespace.
var (
	kindsPart   = []string{"CustomResourceDefinition/kmsnodereports.kms.baokms.io", "CustomResourceDefinition/kmsrotationplans.kms.baokms.io"}
	managerPart = []string{"Deployment/NS/bao-kms-manager", "ServiceAccount/NS/bao-kms-manager", "PodDisruptionBudget/NS/bao-kms-manager"}
	rightsPart  = []string{
		"ClusterRole/bao-kms-manager", "ClusterRoleBinding/bao-kms-manager",
		"Role/NS/bao-kms-manager", "RoleBinding/NS/bao-kms-manager",
		"Role/default/bao-kms-manager", "RoleBinding/default/bao-kms-manager",
	}
	metricsPart  = []string{"Service/NS/bao-kms-manager-metrics", "ClusterRole/bao-kms-manager-metrics-reader"}
	reporterPart = []string{"DaemonSet/NS/bao-kms-node-reporter", "ServiceAccount/NS/bao-kms-node-reporter"}
	rolePart     = []string{"ClusterRole/bao-kms-node-reporter"}
	boundPart    = []string{
		"ClusterRoleBinding/bao-kms-node-reporter",
		"ValidatingAdmissionPolicy/bao-kms-node-reporter", "ValidatingAdmissionPolicyBinding/bao-kms-node-reporter",
	}
	remotePart = []string{
		"Namespace/baokms-reporters", "ClusterRoleBinding/bao-kms-remote-reporters",
		"ValidatingAdmissionPolicy/bao-kms-remote-reporters", "ValidatingAdmissionPolicyBinding/bao-kms-remote-reporters",
	}
)

// combinations are the installations that matter, and what each consists of.
var combinations = []struct {
	name string
	input
	want []string
}{
	{"defaults", input{}, slices.Concat(kindsPart, managerPart, rightsPart, metricsPart, reporterPart, rolePart, boundPart)},
	{"another release in another namespace", input{release: "keys-of-a", namespace: "keys"},
		slices.Concat(kindsPart, managerPart, rightsPart, metricsPart, reporterPart, rolePart, boundPart)},
	{"one replica", input{values: "manager: {replicas: 1}"},
		slices.Concat(kindsPart, managerPart[:2], rightsPart, metricsPart, reporterPart, rolePart, boundPart)},
	{"no budget", input{values: "manager: {podDisruptionBudget: {enabled: false}}"},
		slices.Concat(kindsPart, managerPart[:2], rightsPart, metricsPart, reporterPart, rolePart, boundPart)},
	{"no kinds", input{values: "crds: {install: false}"},
		slices.Concat(managerPart, rightsPart, metricsPart, reporterPart, rolePart, boundPart)},
	{"reporters outside", input{values: "reporter: {enabled: false}"},
		slices.Concat(kindsPart, managerPart, rightsPart, metricsPart, rolePart)},
	{"a management cluster", input{values: "{reporter: {enabled: false}, remoteReporters: {enabled: true}}"},
		slices.Concat(kindsPart, managerPart, rightsPart, metricsPart, rolePart, remotePart)},
	{"reporters alone", input{values: "{manager: {enabled: false}, crds: {install: false}}"},
		slices.Concat(reporterPart, rolePart, boundPart)},
	{"reporters to another cluster", input{values: "{manager: {enabled: false}, crds: {install: false}, reporter: {kubeconfig: {secretName: management}}}"},
		reporterPart},
	{"the manager on another cluster", input{values: "{manager: {kubeconfig: {secretName: workload}}, crds: {install: false}, reporter: {enabled: false}}"},
		slices.Concat(managerPart, metricsPart[:1])},
	{"kinds alone", input{values: "{manager: {enabled: false}, reporter: {enabled: false}}"}, kindsPart},
	{"no metrics", input{values: "manager: {metrics: {enabled: false}}"},
		slices.Concat(kindsPart, managerPart, rightsPart, reporterPart, rolePart, boundPart)},
	{"everything", input{values: everything},
		slices.Concat(kindsPart, managerPart, rightsPart, metricsPart, reporterPart, rolePart, boundPart, remotePart, []string{
			"ServiceMonitor/NS/bao-kms-manager", "ClusterRoleBinding/bao-kms-manager-metrics-reader",
			"NetworkPolicy/NS/bao-kms-manager", "NetworkPolicy/NS/bao-kms-node-reporter",
		})},
}

// everything sets every value that adds something.
const everything = `
image: {repository: "registry.example.net:5000/keys/bao-kms-manager", tag: v9.9.9, digest: "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
log: {level: debug, format: text}
crds: {keep: false}
manager:
  replicas: 3
  concurrency: 9
  metrics:
    port: 9443
    certificateSecretName: metrics-tls
    readers: [{name: prometheus-k8s, namespace: monitoring}, {name: other, namespace: elsewhere}]
    serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus, app.kubernetes.io/part-of: not-this}, tokenSecret: {name: scrape, key: bearer}}
  podDisruptionBudget: {maxUnavailable: 2}
  resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}
  podAnnotations: {example.net/note: "5"}
  podLabels: {team: keys, app.kubernetes.io/name: not-this}
  priorityClassName: important
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{key: infra, operator: Exists, effect: NoSchedule}]
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}
  topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]
reporter:
  reportSocket: /srv/keys/report/r.sock
  socketGroupID: 2147483646
  interval: 10s
  heartbeat: 1m30s
  maxUnavailable: 25%
  seLinuxOptions: {type: container_t}
  resources: {requests: {memory: 16Mi}}
  podAnnotations: {example.net/note: r}
  podLabels: {team: nodes}
  priorityClassName: system-node-critical
  nodeSelector: {keys: "true"}
  tolerations: [{operator: Exists}]
  affinity: {nodeAffinity: null}
remoteReporters: {enabled: true}
networkPolicy:
  enabled: true
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  apiServerCIDRs: [192.0.2.0/28, "2001:db8::/64"]
`

// TestCombinations: what a release consists of, and nothing more; each object says
// whose it is and is of its type, with no field that the type has not.
func TestCombinations(t *testing.T) {
	version := load(t).Metadata
	for _, c := range combinations {
		t.Run(c.name, func(t *testing.T) {
			all := rendered(t, c.input)
			namespace, release := or(c.namespace, system), or(c.release, "baokms")
			var want []string
			for _, key := range c.want {
				want = append(want, strings.Replace(key, "/NS/", "/"+namespace+"/", 1))
			}
			got := all.keys()
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("it consists of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for key, o := range all {
				labels := o.GetLabels()
				for label, value := range map[string]string{
					"app.kubernetes.io/instance": release, "app.kubernetes.io/part-of": "baokms", "app.kubernetes.io/managed-by": "Helm",
					"app.kubernetes.io/version": version.AppVersion, "helm.sh/chart": "baokms-" + version.Version,
				} {
					if labels[label] != value {
						t.Errorf("%s: label %s is %q, want %q", key, label, labels[label], value)
					}
				}
				if o.GetKind() != "ServiceMonitor" {
					typed(t, o)
				}
			}
		})
	}
}
