package manager

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/api/v1alpha1"
)

// planRules has for every rule on a plan what breaks it, and what the server
// says: the field and the words.
var planRules = []struct {
	name   string
	change fields
	field  string
	words  string
}{
	{"no provider", fields{"providerName": nil}, "spec.providerName", "Required value"},
	{"empty provider", fields{"providerName": ""}, "spec.providerName", "at least 1 chars long"},
	{"long provider", fields{"providerName": strings.Repeat("p", 1025)}, "spec.providerName", "may not be more than 1024"},
	{"two lines of provider", fields{"providerName": "a\nb"}, "spec.providerName", "one line without white space around it"},
	{"NUL in the provider", fields{"providerName": "a\x00b"}, "spec.providerName", "one line without white space around it"},
	{"provider and a space", fields{"providerName": "a "}, "spec.providerName", "must be the provider's transit.keyIdScope.providerName"},

	{"no nodes", fields{"nodes": nil}, "spec.nodes", "Required value"},
	{"neither names nor selector", nodes(fields{}), "spec.nodes", "exactly one of nodes.names and nodes.selector must be given"},
	{"both names and selector", nodes(fields{"names": []string{"a"}, "selector": fields{}}), "spec.nodes", "exactly one of nodes.names and nodes.selector must be given"},
	{"no names", nodes(fields{"names": []string{}}), "spec.nodes.names", "at least 1 items"},
	{"a name twice", nodes(fields{"names": []string{"cp-1", "cp-2", "cp-1"}}), "spec.nodes.names[2]", `Duplicate value: "cp-1"`},
	{"1001 names", nodes(fields{"names": numbered(1001)}), "spec.nodes.names", "must have at most 1000 items"},
	{"empty name", nodes(fields{"names": []string{""}}), "spec.nodes.names[0]", "at least 1 chars long"},
	{"long name", nodes(fields{"names": []string{strings.Repeat("n", 254)}}), "spec.nodes.names[0]", "may not be more than 253"},
	{"name in capitals", nodes(fields{"names": []string{"CP-1"}}), "spec.nodes.names[0]", "should match"},
	{"name of two dots", nodes(fields{"names": []string{"a..b"}}), "spec.nodes.names[0]", "should match"},
	{"operator that is none", selector("Is", "a"), "spec.nodes.selector", "must have operator In or NotIn with values, or Exists or DoesNotExist without"},
	{"In without values", selector("In"), "spec.nodes.selector", "must have operator In or NotIn with values"},
	{"NotIn without values", selector("NotIn"), "spec.nodes.selector", "must have operator In or NotIn with values"},
	{"Exists with values", selector("Exists", "a"), "spec.nodes.selector", "or Exists or DoesNotExist without"},
	{"DoesNotExist with values", selector("DoesNotExist", "a"), "spec.nodes.selector", "or Exists or DoesNotExist without"},

	{"target 0", fields{"targetTransitVersion": 0}, "spec.targetTransitVersion", "greater than or equal to 1"},
	{"target in text", fields{"targetTransitVersion": "3"}, "spec.targetTransitVersion", "must be of type integer"},
	{"target too large", fields{"targetTransitVersion": 1 << 31}, "spec.targetTransitVersion", "must be of type integer with format int32"},

	{"age below a second", fields{"reportMaxAge": "999ms"}, "spec.reportMaxAge", "reportMaxAge must be a duration from 1s to 24h, such as 3m or 90s"},
	{"age above a day", fields{"reportMaxAge": "24h1s"}, "spec.reportMaxAge", "reportMaxAge must be a duration from 1s to 24h"},
	{"age without a unit", fields{"reportMaxAge": "180"}, "spec.reportMaxAge", "reportMaxAge must be a duration from 1s to 24h"},
	{"age of an unknown unit", fields{"reportMaxAge": "1d"}, "spec.reportMaxAge", "reportMaxAge must be a duration from 1s to 24h"},
	{"age that no duration holds", fields{"reportMaxAge": "9999999999h"}, "spec.reportMaxAge", "reportMaxAge must be a duration from 1s to 24h"},
	{"age of many digits", fields{"reportMaxAge": strings.Repeat("1", 40) + "s"}, "spec.reportMaxAge", "may not be more than 40"},
	{"negative settle time", fields{"settleTime": "-5m"}, "spec.settleTime", "settleTime must be a duration from 0s to 168h, such as 5m or 1h30m"},
	{"settle time above a week", fields{"settleTime": "168h0m0.001s"}, "spec.settleTime", "settleTime must be a duration from 0s to 168h"},
	{"settle time in words", fields{"settleTime": "5 minutes"}, "spec.settleTime", "settleTime must be a duration from 0s to 168h"},
	{"settle time as a number", fields{"settleTime": 300}, "spec.settleTime", "must be of type string"},

	{"retirement of nothing", retirement(fields{}), "spec.retirement.beforeVersion", "Required value"},
	{"before version 1", retirement(fields{"beforeVersion": 1}), "spec.retirement.beforeVersion", "greater than or equal to 2"},
	{"before version too large", retirement(fields{"beforeVersion": 1 << 31}), "spec.retirement.beforeVersion", "must be of type integer with format int32"},
	{"before above target", fields{"targetTransitVersion": 3, "retirement": fields{"beforeVersion": 4}}, "spec",
		"retirement.beforeVersion must not be above targetTransitVersion: it would retire the version that all nodes are to use"},
	{"approval without evidence", retirement(fields{"beforeVersion": 2, "approvedDigest": digest}), "spec.retirement",
		"approvedDigest needs evidence: say in evidence.rewrite what proves that all data was written again, and in evidence.backups what becomes of backups"},
	{"half of the evidence", retirement(fields{"beforeVersion": 2, "evidence": fields{"rewrite": "CHG-1"}}), "spec.retirement.evidence.backups", "Required value"},
	{"other half of the evidence", retirement(fields{"beforeVersion": 2, "evidence": fields{"backups": "CHG-1"}}), "spec.retirement.evidence.rewrite", "Required value"},
	{"empty evidence", retirement(fields{"beforeVersion": 2, "evidence": evidence("", "b")}), "spec.retirement.evidence.rewrite", "at least 1 chars long"},
	{"blank rewrite", retirement(fields{"beforeVersion": 2, "evidence": evidence(" \t", "b")}), "spec.retirement.evidence.rewrite",
		"evidence.rewrite must refer to what proves that all data was written again; it is blank"},
	{"blank backups", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", " ")}), "spec.retirement.evidence.backups",
		"evidence.backups must refer to what becomes of backups that need the old versions; it is blank"},
	{"long evidence", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", strings.Repeat("b", 1025))}), "spec.retirement.evidence.backups", "may not be more than 1024"},
	{"empty digest", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": ""}), "spec.retirement.approvedDigest", "leave it out to approve nothing"},
	{"digest of another kind", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": "sha512:" + digest[7:]}),
		"spec.retirement.approvedDigest", "approvedDigest must be copied from status.retirement.digest: sha256: and 64 lower-case hexadecimal digits"},
	{"digest cut off", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": digest[:70]}), "spec.retirement.approvedDigest", "64 lower-case hexadecimal digits"},
	{"digest and a letter", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": digest + "0"}), "spec.retirement.approvedDigest", "64 lower-case hexadecimal digits"},
	{"digest in capitals", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": strings.ToUpper(digest)}), "spec.retirement.approvedDigest", "64 lower-case hexadecimal digits"},
	{"digest and a line", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": digest + "\n"}), "spec.retirement.approvedDigest", "64 lower-case hexadecimal digits"},
	{"very long digest", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": strings.Repeat("0", 129)}), "spec.retirement.approvedDigest", "may not be more than 128"},

	{"misspelt field", fields{"settletime": "5m"}, "spec.settletime", "unknown field"},
}

func TestPlanRulesRefuse(t *testing.T) {
	for _, c := range planRules {
		t.Run(c.name, func(t *testing.T) {
			plan := object("KMSRotationPlan", name(t, "plan"), fields{"spec": spec(c.change)})
			refused(t, env.client.Create(t.Context(), plan, client.DryRunAll, strict), c.field, c.words)
		})
	}
}

// TestPlanRulesAcceptTheBounds: what is just inside of every rule.
func TestPlanRulesAcceptTheBounds(t *testing.T) {
	cases := []struct {
		name   string
		change fields
	}{
		{"the least", nil},
		{"short provider", fields{"providerName": "p"}},
		{"long provider", fields{"providerName": strings.Repeat("ü", 1024)}},
		{"provider of words", fields{"providerName": "OpenBao, workload A (ü)"}},
		{"one name", nodes(fields{"names": []string{"n"}})},
		{"1000 names", nodes(fields{"names": numbered(1000)})},
		{"longest name", nodes(fields{"names": []string{strings.Repeat("n", 253)}})},
		{"name with dots", nodes(fields{"names": []string{"ip-10-0-0-1.eu-west-1.compute.internal"}})},
		{"every node", nodes(fields{"selector": fields{}})},
		{"label with an empty value", nodes(fields{"selector": fields{"matchLabels": fields{"node-role.kubernetes.io/control-plane": ""}}})},
		{"In", selector("In", "a", "b")},
		{"NotIn", selector("NotIn", "a")},
		{"Exists", selector("Exists")},
		{"DoesNotExist", selector("DoesNotExist")},
		{"Exists with no values", selector("Exists", []string{}...)},
		{"target 1", fields{"targetTransitVersion": 1}},
		{"largest target", fields{"targetTransitVersion": 1<<31 - 1}},
		{"shortest age", fields{"reportMaxAge": "1s"}},
		{"shortest age in milliseconds", fields{"reportMaxAge": "1000ms"}},
		{"longest age", fields{"reportMaxAge": "24h"}},
		{"longest age in four parts", fields{"reportMaxAge": "23h59m59s1000ms"}},
		{"no settling", fields{"settleTime": "0s"}},
		{"a fraction", fields{"settleTime": "0.5h"}},
		{"longest settling", fields{"settleTime": "168h0m0s"}},
		{"before version 2", retirement(fields{"beforeVersion": 2})},
		{"before the target", fields{"targetTransitVersion": 3, "retirement": fields{"beforeVersion": 3}}},
		{"largest before", retirement(fields{"beforeVersion": 1<<31 - 1})},
		{"evidence without approval", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", strings.Repeat("b", 1024))})},
		{"approval", retirement(fields{"beforeVersion": 2, "evidence": evidence("a", "b"), "approvedDigest": digest})},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan := object("KMSRotationPlan", name(t, "plan"), fields{"spec": spec(c.change)})
			if err := env.client.Create(t.Context(), plan, client.DryRunAll, strict); err != nil {
				t.Fatal(err)
			}
			// What the server takes, the manager can read.
			doc, err := plan.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(doc, new(v1alpha1.KMSRotationPlan)); err != nil {
				t.Errorf("the server accepts what Go cannot read: %v", err)
			}
		})
	}
}

// reportRules is planRules for a KMSNodeReport; status is written to its
// subresource.
var reportRules = []struct {
	name     string
	provider string
	status   fields
	field    string
	words    string
}{
	{"empty provider", "", nil, "spec.providerName", "at least 1 chars long"},
	{"two lines of provider", "a\nb", nil, "spec.providerName", "one line without white space around it"},
	{"provider and a space", " a", nil, "spec.providerName", "must be the provider's transit.keyIdScope.providerName"},
	{"an answer that is none", "a", plans(fields{"beforeVersion": 2}), "status.retirementPlans[0]", "exactly one of plan and problem must be given"},
	{"two answers", "a", plans(fields{"beforeVersion": 2, "plan": golden("plan.json"), "problem": golden("problem.json")}),
		"status.retirementPlans[0]", "exactly one of plan and problem must be given"},
	{"before version 1", "a", plans(fields{"beforeVersion": 1, "problem": golden("problem.json")}), "status.retirementPlans[0].beforeVersion", "greater than or equal to 2"},
	{"one question twice", "a", plans(fields{"beforeVersion": 2, "problem": golden("problem.json")}, fields{"beforeVersion": 2, "problem": golden("problem.json")}),
		"status.retirementPlans", "each beforeVersion of retirementPlans must be given once"},
	{"257 questions", "a", plans(questions(257)...), "status.retirementPlans", "must have at most 256 items"},
	{"unknown field of the report", "a", fields{"report": fields{"more": 1}}, "status.report.more", "unknown field"},
	{"time that is none", "a", fields{"observedAt": "yesterday"}, "status.observedAt", "date-time"},
}

func plans(all ...fields) fields { return fields{"retirementPlans": all} }

func questions(n int) []fields {
	var all []fields
	for i := range n {
		all = append(all, fields{"beforeVersion": i + 2, "problem": golden("problem.json")})
	}
	return all
}

func TestNodeReportRulesRefuse(t *testing.T) {
	for _, c := range reportRules {
		t.Run(c.name, func(t *testing.T) {
			o := object("KMSNodeReport", name(t, "node"), fields{"spec": fields{"providerName": c.provider}})
			if c.status == nil {
				refused(t, env.client.Create(t.Context(), o, client.DryRunAll, strict), c.field, c.words)
				return
			}
			create(t, o)
			o.Object["status"] = runtimeJSON(c.status)
			refused(t, env.client.Status().Update(t.Context(), o, strict), c.field, c.words)
		})
	}
}

// TestEveryRuleIsTried: each rule's message is in one of the tables above, or is
// the immutability that has its own test.
func TestEveryRuleIsTried(t *testing.T) {
	tried := []string{unchangeable}
	for _, c := range planRules {
		tried = append(tried, c.words)
	}
	for _, c := range reportRules {
		tried = append(tried, c.words)
	}
	for _, file := range []string{"kmsnodereports", "kmsrotationplans"} {
		doc, err := os.ReadFile(filepath.Join(env.root, "config", "crd", "kms.baokms.io_"+file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.UnmarshalStrict(doc, crd); err != nil {
			t.Fatal(err)
		}
		for _, message := range messages(crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			found := false
			for _, words := range tried {
				found = found || strings.Contains(message, words)
			}
			if !found {
				t.Errorf("%s: no case has the message %q", file, message)
			}
		}
	}
}

// messages are those of all rules in s.
func messages(s *apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	for _, rule := range s.XValidations {
		all = append(all, rule.Message)
	}
	for _, field := range s.Properties {
		all = append(all, messages(&field)...)
	}
	if s.Items != nil {
		all = append(all, messages(s.Items.Schema)...)
	}
	return all
}
