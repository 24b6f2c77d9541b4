package reporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
)

// fieldOwner owns the status of every KMSNodeReport in server-side apply.
const fieldOwner = "bao-kms-node-reporter"

// callTimeout bounds one call of the API server.
const callTimeout = 15 * time.Second

// errMoved: the object is no longer what was read; read it again.
var errMoved = errors.New("the KMSNodeReport was changed, made or removed by somebody else meanwhile")

// errNoKind: nothing can be written until somebody brings the kind.
var errNoKind = errors.New("the API server does not know the kind KMSNodeReport: apply config/crd of this release")

// object is the node's KMSNodeReport at the API server. One goroutine uses it.
type object struct {
	client client.Client
	name   string
}

// read is the object, nil when there is none.
func (o object) read(ctx context.Context) (*v1alpha1.KMSNodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found := &v1alpha1.KMSNodeReport{}
	err := o.client.Get(ctx, client.ObjectKey{Name: o.name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case meta.IsNoMatchError(err):
		return nil, errNoKind
	case err != nil:
		return nil, fmt.Errorf("reading the KMSNodeReport %s: %w", o.name, err)
	}
	return found, nil
}

// create makes the object for a provider. errMoved when another one was faster.
func (o object) create(ctx context.Context, provider string) (*v1alpha1.KMSNodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	made := &v1alpha1.KMSNodeReport{
		ObjectMeta: metav1.ObjectMeta{Name: o.name},
		Spec:       v1alpha1.KMSNodeReportSpec{ProviderName: provider},
	}
	err := o.client.Create(ctx, made, client.FieldOwner(fieldOwner))
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, errMoved
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, errNoKind
	case err != nil:
		return nil, fmt.Errorf("creating the KMSNodeReport %s: %w", o.name, err)
	}
	return made, nil
}

// apply writes the status of the object as it was read, and returns it as it is
// then: errMoved when it is not as it was read any more. Nobody else may own a
// field of the status, so ownership is taken; what somebody wrote is found by the
// version, not by the owner. Applying takes nothing away that another owner has
// too: so the report and the plans are owned as a whole (api/v1alpha1) and are
// never left out.
func (o object) apply(ctx context.Context, observed *v1alpha1.KMSNodeReport, status v1alpha1.KMSNodeReportStatus) (*v1alpha1.KMSNodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the KMSNodeReport %s: %w", o.name, err)
	}
	if len(status.RetirementPlans) == 0 {
		content["retirementPlans"] = []any{}
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	applied.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("KMSNodeReport"))
	applied.SetName(o.name)
	applied.SetUID(observed.UID)
	applied.SetResourceVersion(observed.ResourceVersion)
	err = o.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(fieldOwner), client.ForceOwnership)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil, errMoved
	case err != nil:
		return nil, fmt.Errorf("writing the status of the KMSNodeReport %s: %w", o.name, err)
	}
	written := &v1alpha1.KMSNodeReport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, written); err != nil {
		return nil, fmt.Errorf("the API server answered with a KMSNodeReport %s that cannot be read: %w", o.name, err)
	}
	return written, nil
}
