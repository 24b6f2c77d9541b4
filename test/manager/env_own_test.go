package manager

import (
	"testing"

	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/baokms/baokms/api/v1alpha1"
)

// TestAUserHasItsOwnRightsOnly: the tests of RBAC rest on it.
func TestAUserHasItsOwnRightsOnly(t *testing.T) {
	user := env.as(t, rest.ImpersonationConfig{UserName: name(t, "user")})
	plan := create(t, object("KMSRotationPlan", name(t, "plan"), fields{"spec": spec(nil)}))
	if err := user.List(t.Context(), &v1alpha1.KMSRotationPlanList{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a user without rights lists plans: %v", err)
	}

	create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name(t, "role")},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"kmsrotationplans"}, Verbs: []string{"list"}}},
	})
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name(t, "binding")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name(t, "role")},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name(t, "user")}},
	})
	eventually(t, func(g gomega.Gomega) {
		g.Expect(user.List(t.Context(), &v1alpha1.KMSRotationPlanList{})).To(gomega.Succeed())
	})
	if err := user.Delete(t.Context(), plan); !apierrors.IsForbidden(err) {
		t.Errorf("a user who may list plans deletes one: %v", err)
	}
}
