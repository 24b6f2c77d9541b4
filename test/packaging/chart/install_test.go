package chart

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/api/v1alpha1"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// TestTheServerTakesEverything: the real API server takes every object of every
// installation as it is, without dropping a field. The ServiceMonitor's kind is not
// there; TestServiceMonitor knows its shape.
func TestTheServerTakesEverything(t *testing.T) {
	c := start(t)
	for _, n := range combinations {
		n.namespace = c.namespace
		for key, o := range rendered(t, n.input) {
			if o.GetKind() == "ServiceMonitor" {
				continue
			}
			err := c.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.DryRunAll)
			if err != nil {
				t.Errorf("%s: %s: %v", n.name, key, err)
			}
		}
	}
}

// older is the chart as an earlier release may have been: its plans have fewer
// columns, and no rule about evidence.
func older(t *testing.T) *chartv2.Chart {
	t.Helper()
	c := load(t)
	c.Metadata.Version, c.Metadata.AppVersion = "0.0.1", "v0.0.1"
	const file = "files/crd/kms.baokms.io_kmsrotationplans.yaml"
	i := slices.IndexFunc(c.Files, func(f *common.File) bool { return f.Name == file })
	if i < 0 {
		t.Fatal("the chart has no " + file)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(c.Files[i].Data, &crd); err != nil {
		t.Fatal(err)
	}
	version := &crd.Spec.Versions[0]
	version.AdditionalPrinterColumns = version.AdditionalPrinterColumns[:1]
	spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
	delete(spec.Properties, "retirement")
	spec.XValidations = nil
	version.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	text, err := yaml.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	c.Files[i] = &common.File{Name: file, Data: text}
	return c
}

// crd is a kind as the API server has it.
func (c *cluster) crd(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.admin.Get(t.Context(), client.ObjectKey{Name: plural + ".kms.baokms.io"}, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// TestLifeOfARelease: an older release is upgraded, and its kinds with it, which a crds
// folder would not do; what was planned stays, over the upgrade, over a release that
// no longer installs the kinds, and over the end of the release; and a new release
// finds it.
func TestLifeOfARelease(t *testing.T) {
	c := start(t)
	made, err := c.install(t, "baokms", older(t), "")
	if err != nil {
		t.Fatal(err)
	}
	c.serves(t)
	plan := c.plan(t, made.Info.Notes)
	if got := c.crd(t, "kmsrotationplans").Spec.Versions[0].AdditionalPrinterColumns; len(got) != 1 {
		t.Fatalf("the older kind has the columns %v", got)
	}

	c.upgrade(t, "baokms", load(t), "manager: {replicas: 1}")
	want := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, file := range copied[:2] {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(chartPath, "files", file))), &crd); err != nil {
			t.Fatal(err)
		}
		want[crd.Spec.Names.Plural] = crd
	}
	for plural, crd := range want {
		got := c.crd(t, plural)
		if !reflect.DeepEqual(got.Spec.Versions[0].AdditionalPrinterColumns, crd.Spec.Versions[0].AdditionalPrinterColumns) ||
			!reflect.DeepEqual(got.Spec.Versions[0].Schema, crd.Spec.Versions[0].Schema) {
			t.Errorf("after the upgrade %s is not the chart's", plural)
		}
		if got.Labels["helm.sh/chart"] != "baokms-"+load(t).Metadata.Version {
			t.Errorf("%s is labelled %v", plural, got.Labels)
		}
	}
	d := &appsv1.Deployment{}
	if err := c.admin.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: managerName}, d); err != nil || *d.Spec.Replicas != 1 {
		t.Errorf("the Deployment has %v replicas (%v)", d.Spec.Replicas, err)
	}
	c.still(t, plan)

	c.upgrade(t, "baokms", load(t), "crds: {install: false}")
	c.still(t, plan)

	// Another release finds the kinds to be the first one's; Helm says whose.
	if _, err := c.install(t, "another", load(t), ""); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("a second release: %v", err)
	}

	c.upgrade(t, "baokms", load(t), "")
	c.uninstall(t, "baokms")
	c.still(t, plan)
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: managerName}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: reporterName}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: managerName}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: managerName}},
	} {
		c.lacks(t, o)
	}

	if _, err := c.install(t, "baokms", load(t), "crds: {keep: false}"); err != nil {
		t.Fatalf("installing it again: %v", err)
	}
	c.still(t, plan)
}

// still says that a plan is there as it was.
func (c *cluster) still(t *testing.T, plan *v1alpha1.KMSRotationPlan) {
	t.Helper()
	got := &v1alpha1.KMSRotationPlan{}
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(plan), got); err != nil {
		t.Fatal(err)
	}
	if got.UID != plan.UID || !reflect.DeepEqual(got.Spec, plan.Spec) {
		t.Errorf("the plan is %s %+v, was %s %+v", got.UID, got.Spec, plan.UID, plan.Spec)
	}
}

// TestKindsGoWhenTold: with crds.keep=false nothing of the release stays.
func TestKindsGoWhenTold(t *testing.T) {
	c := start(t)
	if _, err := c.install(t, "baokms", load(t), "crds: {keep: false}"); err != nil {
		t.Fatal(err)
	}
	c.serves(t)
	c.uninstall(t, "baokms")
	c.noKinds(t)
}
