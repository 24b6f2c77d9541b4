package observe

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
	"github.com/baokms/baokms/internal/report"
)

// beforeParameter is the one parameter of /v1/retirement-plan.
const beforeParameter = "before-version"

// refusal is a problem with the HTTP code that it is told with.
type refusal struct {
	code    int
	problem *report.Problem
}

func refuse(code int, reason string, a advice) *refusal {
	return &refusal{code, &report.Problem{
		APIVersion: report.APIVersion,
		Kind:       report.KindProblem,
		Reason:     reason,
		Message:    clipped(a.message),
		NextStep:   clipped(a.nextStep),
	}}
}

func refuseReason(code int, reason status.Reason, class fault.Class) *refusal {
	return refuse(code, string(reason), adviceOn(reason, class))
}

// beforeVersion reads the query: exactly before-version=N, a decimal number from
// 2 on. What was asked is not repeated.
func beforeVersion(query string) (int, *refusal) {
	bad := func(message string) (int, *refusal) {
		return 0, refuse(http.StatusBadRequest, report.ReasonBadQuery, advice{message, "ask for /v1/retirement-plan?before-version=N, with N from 2 on"})
	}
	values, err := url.ParseQuery(query)
	asked := values[beforeParameter]
	switch {
	case err != nil:
		return bad("the query is malformed")
	case len(asked) == 0:
		return bad("the query has no before-version")
	case len(asked) > 1:
		return bad("the query has before-version more than once")
	case len(values) > 1:
		return bad("the query has a parameter other than before-version")
	}
	n, err := strconv.Atoi(asked[0])
	switch {
	case err != nil || strconv.Itoa(n) != asked[0]:
		return bad("before-version is not a decimal number")
	case n < 2:
		return bad("before-version is below 2, and nothing can be below version 1")
	case n > math.MaxInt32:
		return bad("before-version is larger than a Transit version can be")
	}
	return n, nil
}

// retirementPlan is what retire-versions would do on this node, made from one
// view: the published registry and the newest metadata that a probe has seen. It
// is refused when the last probe saw none, when that was too long ago, or when
// the files on disk may not hold the registry that the plan would be made from.
func retirementPlan(v *status.View, now time.Time, before int) (*report.RetirementPlan, *refusal) {
	f := v.Facts()
	r, m := f.Registry, f.Metadata
	switch {
	case r == nil:
		return nil, refuseReason(http.StatusServiceUnavailable, v.Judge(now).Reasons[0], m.Class)
	case f.Persistence.Reason != "":
		return nil, refuseReason(http.StatusConflict, f.Persistence.Reason, "")
	case f.Persistence.Degraded:
		return nil, refuseReason(http.StatusConflict, status.StateSaveFailed, "")
	case !ofRegistry(m.Reason):
		return nil, refuseReason(http.StatusConflict, m.Reason, m.Class)
	case m.SeenAt.IsZero():
		return nil, refuseReason(http.StatusConflict, status.MetadataUnverified, "")
	case now.Sub(m.SeenAt) > f.MaxStaleness:
		return nil, refuseReason(http.StatusConflict, status.StatusStale, "")
	}
	next, removed, err := r.Retire(m.Seen, f.Rules, before)
	if err != nil {
		return nil, refuseRetirement(err)
	}
	return &report.RetirementPlan{
		APIVersion:      report.APIVersion,
		Kind:            report.KindRetirementPlan,
		BeforeVersion:   before,
		RemovedVersions: append([]int{}, removed...),
		ActiveKeyIDHash: r.Active().Binding.KeyIDHash(),
		StateHash:       r.Hash(),
		NextGeneration:  next.Generation(),
		NextStateHash:   next.Hash(),
	}, nil
}

// refuseRetirement words what a registry answers. Anything but a guard and
// metadata that does not validate is a defect.
func refuseRetirement(err error) *refusal {
	var guard *registry.Refusal
	var metadata *registry.Rejection
	switch {
	case errors.As(err, &guard):
		return refuse(http.StatusConflict, string(guard.Guard), advice{guard.Message(), guard.NextStep})
	case errors.As(err, &metadata):
		return refuse(http.StatusConflict, string(metadata.Problem), advice{metadata.Message(), metadata.NextStep})
	}
	return refuse(http.StatusInternalServerError, reasonUnexplained, advice{"the plan would break an invariant of the registry", status.ReportDefect})
}
