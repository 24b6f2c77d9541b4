package plan

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// FieldOwner owns the status of every plan in server-side apply, and reports the
// Events.
const FieldOwner = "bao-kms-manager"

// write brings a plan's status to what was judged, and tells of conditions that
// changed. It reports whether the plan is no longer the one that was judged: then
// nothing was written. A plan that is gone needs no status.
func (r *Reconciler) write(ctx context.Context, plan *v1alpha1.KMSRotationPlan, status v1alpha1.KMSRotationPlanStatus) (moved bool, err error) {
	if equality.Semantic.DeepEqual(plan.Status, status) {
		return false, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return false, fmt.Errorf("encoding the status: %w", err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	applied.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("KMSRotationPlan"))
	applied.SetName(plan.Name)
	applied.SetUID(plan.UID)
	applied.SetResourceVersion(plan.ResourceVersion)
	// Nobody else may own a field of the status, so ownership is taken; what
	// somebody wrote meanwhile is found by the version.
	err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(FieldOwner), client.ForceOwnership)
	switch {
	case apierrors.IsConflict(err):
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("writing the status: %w", err)
	}
	r.pace.wrote(plan.Name, len(status.Nodes), r.now())
	for _, t := range transitions(plan.Status.Conditions, status.Conditions) {
		r.tell(plan, t)
	}
	return false, nil
}

// tooLarge reports whether a status was refused for its size: by the API server,
// which takes three megabytes, or by its etcd, which takes one and a half unless it
// is told otherwise.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "etcdserver: request is too large")
}
