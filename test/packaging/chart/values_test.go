package chart

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"sigs.k8s.io/yaml"
)

// TestRefusals: what the chart does not render, and that the message names the value
// and, where it is ours, the way out.
func TestRefusals(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 63)
	cases := []struct {
		name string
		input
		says []string
	}{
		{"an unknown value", input{values: "replicas: 2"}, []string{"additional properties 'replicas' not allowed"}},
		{"a misspelt value", input{values: "manager: {replica: 2}"}, []string{"'/manager'", "additional properties 'replica' not allowed"}},
		{"a misspelt value deep down", input{values: "manager: {metrics: {serviceMonitor: {enable: true}}}"}, []string{"'/manager/metrics/serviceMonitor'", "'enable' not allowed"}},
		{"no repository", input{values: "image: {repository: ''}"}, []string{"'/image/repository'", "minLength"}},
		{"a tag in the repository", input{values: "image: {repository: 'a/b:v1'}"}, []string{"'/image/repository'", "does not match pattern"}},
		{"half a digest", input{values: "image: {digest: '" + digest + "'}"}, []string{"'/image/digest'", "does not match pattern", "[0-9a-f]{64}"}},
		{"a number as a tag", input{values: "image: {tag: 1.20}"}, []string{"'/image/tag'", "got number, want string"}},
		{"a policy that is none", input{values: "image: {pullPolicy: Sometimes}"}, []string{"'/image/pullPolicy'", "'Always', 'IfNotPresent', 'Never'"}},
		{"a level that is none", input{values: "log: {level: loud}"}, []string{"'/log/level'", "'debug', 'info', 'warn', 'error'"}},
		{"replicas in quotes", input{values: "manager: {replicas: '2'}"}, []string{"'/manager/replicas'", "got string, want integer"}},
		{"no concurrency", input{values: "manager: {concurrency: 0}"}, []string{"'/manager/concurrency'", "want 1"}},
		{"a low port", input{values: "manager: {metrics: {port: 443}}"}, []string{"'/manager/metrics/port'", "want 1,024"}},
		{"a reader without a namespace", input{values: "manager: {metrics: {readers: [{name: prometheus}]}}"}, []string{"'/manager/metrics/readers/0'", "missing property 'namespace'"}},
		{"a budget of nothing", input{values: "manager: {podDisruptionBudget: {maxUnavailable: 0}}"}, []string{"'/manager/podDisruptionBudget/maxUnavailable'", "want 1"}},
		{"a label that is no string", input{values: "manager: {podLabels: {team: true}}"}, []string{"'/manager/podLabels/team'", "want string"}},
		{"an effect that is none", input{values: "reporter: {tolerations: [{effect: Never}]}"}, []string{"'/reporter/tolerations/0/effect'", "'NoSchedule'"}},
		{"a relative socket", input{values: "reporter: {reportSocket: run/a/report.sock}"}, []string{"'/reporter/reportSocket'", "does not match pattern"}},
		{"a socket upstairs", input{values: "reporter: {reportSocket: /run/a/../containerd/containerd.sock}"}, []string{"'/reporter/reportSocket'", "does not match pattern"}},
		{"a socket too deep", input{values: "reporter: {reportSocket: /run/" + strings.Repeat("a", 101) + "/r}"}, []string{"'/reporter/reportSocket'", "maxLength: got 108, want 107"}},
		{"root's group", input{values: "reporter: {socketGroupID: 0}"}, []string{"'/reporter/socketGroupID'", "want 1"}},
		{"no interval", input{values: "reporter: {interval: 0s}"}, []string{"'/reporter/interval'", "does not match pattern"}},
		{"an interval without a unit", input{values: "reporter: {interval: '30'}"}, []string{"'/reporter/interval'", "does not match pattern"}},
		{"no update", input{values: "reporter: {maxUnavailable: 0}"}, []string{"'/reporter/maxUnavailable'"}},
		{"a peer of nobody", input{values: "networkPolicy: {metricsFrom: [{}]}"}, []string{"'/networkPolicy/metricsFrom/0'", "minProperties"}},
		{"an address for a network", input{values: "networkPolicy: {apiServerCIDRs: [192.0.2.1]}"}, []string{"'/networkPolicy/apiServerCIDRs/0'", "does not match pattern"}},

		{"the namespace default", input{namespace: "default"}, []string{"namespace default", "--namespace baokms-system --create-namespace"}},
		{"nothing", input{values: "{manager: {enabled: false}, reporter: {enabled: false}, crds: {install: false}}"}, []string{"there is nothing to install"}},
		{"a socket in /run", input{values: "reporter: {reportSocket: /run/report.sock}"}, []string{"reporter.reportSocket is in /run,", "a directory of its own, such as"}},
		{"a socket in /var/run", input{values: "reporter: {reportSocket: /var/run/report.sock}"}, []string{"reporter.reportSocket is in /var/run,"}},
		{"a socket in the root", input{values: "reporter: {reportSocket: /report.sock}"}, []string{"reporter.reportSocket is in /,"}},
		{"a socket beside the KMS socket", input{values: "reporter: {reportSocket: /run/openbao-kms/report.sock}"}, []string{"reporter.reportSocket is in /run/openbao-kms,", "KMS socket"}},
		{"the same by its other name", input{values: "reporter: {reportSocket: /var/run/openbao-kms/report.sock}"}, []string{"reporter.reportSocket is in /var/run/openbao-kms,"}},
		{"a socket among settings", input{values: "reporter: {reportSocket: /etc/kubernetes/report/r.sock}"}, []string{"reporter.reportSocket is in /etc/kubernetes/report,"}},
		{"a socket over the program", input{values: "reporter: {reportSocket: /usr/local/bin/r.sock}"}, []string{"reporter.reportSocket is in /usr/local/bin,"}},
		{"remote reporters of nothing", input{values: "{manager: {enabled: false}, reporter: {enabled: false}, remoteReporters: {enabled: true}}"}, []string{"remoteReporters.enabled is for the cluster that holds the plans"}},
		{"a monitor of nothing", input{values: "manager: {metrics: {enabled: false, serviceMonitor: {enabled: true}}}"}, []string{"needs manager.metrics.enabled"}},
		{"a token for whoever answers", input{values: "manager: {metrics: {serviceMonitor: {enabled: true}}}"}, []string{"manager.metrics.certificateSecretName", "insecureSkipVerify"}},

		{"an old cluster", input{kubernetes: "v1.33.9"}, []string{"kubeVersion: >=1.34.0-0", "1.33.9"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := render(t, c.input)
			if err == nil {
				t.Fatal("it is rendered")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says %q, without %q", err, want)
				}
			}
		})
	}
}

// TestAccepted: what is close to a refusal and fine.
func TestAccepted(t *testing.T) {
	for name, in := range map[string]input{
		"the newest cluster":                 {kubernetes: "v1.37.2"},
		"a vendor's cluster":                 {kubernetes: "v1.34.0-eks-1a2b3c"},
		"a socket under /var/run":            {values: "reporter: {reportSocket: /var/run/report/r.sock}"},
		"a refused socket that is off":       {values: "reporter: {enabled: false, reportSocket: /run/r.sock}"},
		"a monitor without a check":          {values: "manager: {metrics: {serviceMonitor: {enabled: true, insecureSkipVerify: true}}}"},
		"a monitor of a manager that is off": {values: "manager: {enabled: false, metrics: {serviceMonitor: {enabled: true}}}"},
		"no replica for a while":             {values: "manager: {replicas: 0}"},
		"values of a parent chart":           {values: "global: {anything: 1}"},
		"the longest socket":                 {values: "reporter: {reportSocket: /run/" + strings.Repeat("a", 100) + "/r}"},
	} {
		if _, err := render(t, in); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// node is what the test reads of a JSON Schema.
type node struct {
	Ref                  string           `json:"$ref"`
	AllOf                []*node          `json:"allOf"`
	Type                 any              `json:"type"`
	Description          string           `json:"description"`
	Properties           map[string]*node `json:"properties"`
	AdditionalProperties json.RawMessage  `json:"additionalProperties"`
	Definitions          map[string]*node `json:"definitions"`
}

// TestSchemaAndValues: every value has a rule and a sentence, every rule has a value
// in values.yaml, and no object of the chart's own takes an unknown one.
func TestSchemaAndValues(t *testing.T) {
	var schema node
	if err := json.Unmarshal([]byte(read(t, filepath.Join(chartPath, "values.schema.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(chartPath, "values.yaml"))), &values); err != nil {
		t.Fatal(err)
	}
	resolve := func(n *node) *node {
		for n.Ref != "" || len(n.AllOf) == 1 {
			if n.Ref == "" {
				n = n.AllOf[0]
				continue
			}
			n = schema.Definitions[strings.TrimPrefix(n.Ref, "#/definitions/")]
		}
		return n
	}
	// Objects that are Kubernetes' own: their fields are not values of the chart.
	foreign := map[string]bool{".global": true, "resources": true, "affinity": true, "seLinuxOptions": true}
	var walk func(path string, n *node, value any)
	walk = func(path string, n *node, value any) {
		n = resolve(n)
		if n.Description == "" && path != "" {
			t.Errorf("%s: the schema does not explain it", path)
		}
		last := path[strings.LastIndex(path, ".")+1:]
		if n.Properties == nil || foreign[last] {
			return
		}
		if string(n.AdditionalProperties) != "false" {
			t.Errorf("%s: the schema takes unknown values", path)
		}
		fields, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("%s is no object in values.yaml", path)
		}
		known := slices.Sorted(maps.Keys(n.Properties))
		if path == "" {
			known = slices.DeleteFunc(known, func(k string) bool { return k == "global" })
		}
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, known) {
			t.Errorf("%s: values.yaml has %v, the schema %v", path, got, known)
		}
		for field, rule := range n.Properties {
			if path == "" && field == "global" {
				continue
			}
			walk(path+"."+field, rule, fields[field])
		}
	}
	walk("", &schema, values)
}

// TestLint: helm lint has nothing to say, but that there is no picture.
func TestLint(t *testing.T) {
	for _, values := range []string{"", everything} {
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, system
		result := lint.Run([]string{chartPath}, parse(t, values))
		for _, err := range result.Errors {
			t.Error(err)
		}
		if result.TotalChartsLinted != 1 {
			t.Errorf("%d charts were looked at", result.TotalChartsLinted)
		}
		for _, m := range result.Messages {
			if m.Err.Error() != "icon is recommended" {
				t.Errorf("%v", m)
			}
		}
	}
}
