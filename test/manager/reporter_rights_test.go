package manager

import (
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// reporterRole is the role of config/rbac.
func reporterRole(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	all := manifests(t, "rbac/reporter-role.yaml")
	if len(all) != 1 {
		t.Fatalf("%d objects, want one", len(all))
	}
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[0].Object, role); err != nil {
		t.Fatal(err)
	}
	return role
}

// TestReporterRightsAreExact: with its role a reporter is refused nothing; without
// any one verb of it, it is refused that and says so; and it sends nothing else.
func TestReporterRightsAreExact(t *testing.T) {
	t.Parallel()
	type grant struct{ resource, verb string }
	var granted []grant
	for _, rule := range reporterRole(t).Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted = append(granted, grant{resource, verb})
			}
		}
	}
	if len(granted) == 0 {
		t.Fatal("the role grants nothing")
	}
	// run runs a reporter with the role without one grant.
	run := func(t *testing.T, without grant) (*runningReporter, *wire, string) {
		t.Helper()
		role := reporterRole(t)
		role.Name = name(t, "role")
		for i, rule := range role.Rules {
			if slices.Contains(rule.Resources, without.resource) {
				if len(rule.Resources) != 1 {
					t.Fatal("a rule has several resources: the test cannot take a grant away")
				}
				role.Rules[i].Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == without.verb })
			}
		}
		role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 })
		user := name(t, "user")
		create(t, role)
		create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}})
		provider, node := name(t, "provider"), name(t, "cp-1")
		create(t, &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")},
			Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: provider, Nodes: v1alpha1.NodeSet{Names: []string{node}}, Retirement: &v1alpha1.Retirement{BeforeVersion: 2}}})
		w := &wire{}
		// The API server learns of a role a moment later.
		eventually(t, func(g gomega.Gomega) {
			probe := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user}}
			for _, has := range granted {
				probe.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Group: "kms.baokms.io", Verb: has.verb}
				probe.Spec.ResourceAttributes.Resource, probe.Spec.ResourceAttributes.Subresource, _ = strings.Cut(has.resource, "/")
				review := probe.DeepCopy()
				g.Expect(env.client.Create(t.Context(), review)).To(gomega.Succeed())
				g.Expect(review.Status.Allowed).To(gomega.Equal(has != without))
			}
		})
		config := w.tap(env.config(rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}))
		return runReporter(t, node, newReportSocket(t, provider), config), w, node
	}
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		r, w, node := run(t, grant{})
		reportOf(t, node, func(g gomega.Gomega, o *v1alpha1.KMSNodeReport) {
			reachable(g, o, metav1.ConditionTrue, "Answering")
			g.Expect(o.Status.RetirementPlans).To(gomega.HaveLen(1))
		})
		eventually(t, func(g gomega.Gomega) {
			for _, has := range granted {
				g.Expect(slices.ContainsFunc(w.seen(), func(e exchange) bool { return e.resource == has.resource && e.verb == has.verb })).To(gomega.BeTrue())
			}
		})
		for _, e := range w.seen() {
			if !slices.Contains(granted, grant{e.resource, e.verb}) || e.group != "kms.baokms.io" {
				t.Errorf("it sends %s", e)
			}
		}
		if all := r.log.warnings(); len(all) > 0 {
			t.Errorf("it warns: %q", all)
		}
	})
	for _, g := range granted {
		t.Run("without "+g.verb+" "+g.resource, func(t *testing.T) {
			t.Parallel()
			r, _, _ := run(t, g)
			want := `cannot ` + g.verb + ` resource \"` + g.resource + `\"`
			eventually(t, func(gg gomega.Gomega) {
				gg.Expect(strings.Join(r.log.warnings(), "")).To(gomega.ContainSubstring(want))
			})
		})
	}
}

// TestReporterMayNothingElse are requests that somebody with a reporter's token
// could try.
func TestReporterMayNothingElse(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	node := name(t, "cp-1")
	c := connected(t, reporterOn(t, node))
	own := create(t, emptyReport(node, "p"))
	plan := create(t, &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: name(t, "plan")},
		Spec: v1alpha1.KMSRotationPlanSpec{ProviderName: "p", Nodes: v1alpha1.NodeSet{Names: []string{node}}}})
	merge := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	ctx := t.Context()
	for what, err := range map[string]error{
		"list reports":          c.List(ctx, &v1alpha1.KMSNodeReportList{}),
		"patch its report":      c.Patch(ctx, own.DeepCopy(), merge),
		"update its report":     c.Update(ctx, own.DeepCopy()),
		"delete its report":     c.Delete(ctx, own.DeepCopy()),
		"read a plan":           c.Get(ctx, client.ObjectKeyFromObject(plan), &v1alpha1.KMSRotationPlan{}),
		"patch a plan":          c.Patch(ctx, plan.DeepCopy(), merge),
		"patch a plan's status": c.Status().Patch(ctx, plan.DeepCopy(), merge),
		"delete a plan":         c.Delete(ctx, plan.DeepCopy()),
		"read nodes":            c.List(ctx, &corev1.NodeList{}),
		"read secrets":          c.List(ctx, &corev1.SecretList{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it forbidden", what, err)
		}
	}
}

// TestReporterWritesItsNodeOnly: the policy ties the name of the report to the
// node in the caller's token, for reporters and for nobody else.
func TestReporterWritesItsNodeOnly(t *testing.T) {
	t.Parallel()
	applyReporterRights(t)
	mine, other := name(t, "cp-1"), name(t, "cp-2")
	pod := reporterOn(t, mine)
	nodeObject := read(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: mine}})
	onNode := tokenOf(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: mine, UID: nodeObject.UID})
	unbound := tokenOf(t, nil)
	create(t, emptyReport(other, "p"))
	refusal := "the node reporter of node " + mine + " may write the KMSNodeReport of that name only, not " + other + ": check its --node-name"
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedAt":"2026-11-30T06:15:00Z"}}`))

	for who, token := range map[string]*rest.Config{"pod": pod, "node": onNode} {
		t.Run(who, func(t *testing.T) {
			c := connected(t, token)
			own := emptyReport(mine, "p")
			if err := c.Create(t.Context(), own); err != nil {
				t.Fatalf("its own report: %v", err)
			}
			remove(t, own)
			if err := c.Status().Patch(t.Context(), own, status); err != nil {
				t.Fatalf("its own report's status: %v", err)
			}
			for what, err := range map[string]error{
				"create": c.Create(t.Context(), emptyReport(other, "p")),
				"status": c.Status().Patch(t.Context(), emptyReport(other, ""), status),
				"a made-up name": func() error {
					o := emptyReport("", "p")
					o.GenerateName = mine
					return c.Create(t.Context(), o)
				}(),
			} {
				if !apierrors.IsForbidden(err) || what != "a made-up name" && !strings.Contains(err.Error(), refusal) {
					t.Errorf("%s: %v, want %q", what, err, refusal)
				}
			}
			if err := env.client.Delete(t.Context(), own); err != nil {
				t.Fatal(err)
			}
		})
	}
	if o := read(t, emptyReport(other, "")); o.Status.ObservedAt != nil {
		t.Error("another node's report was written")
	}
	err := connected(t, unbound).Create(t.Context(), emptyReport(mine, "p"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "token is not bound to a node") {
		t.Errorf("a token without a node: %v", err)
	}

	// A reporter that is told a wrong name says why it cannot write.
	r := runReporter(t, other, newReportSocket(t, "p"), pod)
	eventually(t, func(g gomega.Gomega) { g.Expect(r.Ready()).To(gomega.MatchError(gomega.ContainSubstring(refusal))) })
}
