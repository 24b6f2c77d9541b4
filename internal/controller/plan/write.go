package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// FieldOwner owns the status of every plan in server-side apply, and reports the
// Events.
const FieldOwner = "bao-kms-manager"

// write brings a plan's status to what was judged, to the last field, and tells of
// conditions that changed. It reports whether the plan is no longer the one that was
// judged, or else was written meanwhile: then it has to be judged again. A plan that
// is gone needs no status.
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
	// somebody wrote meanwhile is found by the version. The answer is put in its place.
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
	return r.purge(ctx, applied, content)
}

// purge removes from the status what is in the server's answer and was not applied.
// An apply removes only what nobody else owns. So what a restore or an edit by hand
// wrote, even if it was there already, outlives the manager's own word: a settle
// clock would outlive a break. Replacing the status takes what goes from its owners,
// and adds nothing that this manager would own a second time. moved is as of write.
func (r *Reconciler) purge(ctx context.Context, answer *unstructured.Unstructured, content map[string]any) (moved bool, err error) {
	left, err := decoded(answer.Object["status"])
	if err != nil {
		return false, fmt.Errorf("decoding the status that was written: %w", err)
	}
	sent, err := decoded(content)
	if err != nil {
		return false, fmt.Errorf("decoding the status: %w", err)
	}
	if equality.Semantic.DeepEqual(left, sent) {
		return false, nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": answer.GetResourceVersion()},
		{"op": "replace", "path": "/status", "value": content},
	})
	if err != nil {
		return false, fmt.Errorf("encoding the status: %w", err)
	}
	err = r.client.Status().Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(FieldOwner))
	switch {
	case apierrors.IsConflict(err): // no two objects ever have the same version
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("removing what others wrote into the status: %w", err)
	}
	return false, nil
}

// decoded is a status as the API's types have it.
func decoded(content any) (*v1alpha1.KMSRotationPlanStatus, error) {
	status := &v1alpha1.KMSRotationPlanStatus{}
	fields, _ := content.(map[string]any) // none: it is empty
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, status)
}

// tooLarge reports whether a status was refused for its size: by the API server,
// which takes three megabytes, or by its etcd, which takes one and a half unless it
// is told otherwise.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "etcdserver: request is too large")
}
