package reporter

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/report"
)

// promotionRounding is by how many seconds an estimated promotion may differ
// between two reports while its countdown runs: it is computed anew for each, in
// whole seconds.
const promotionRounding = 5

// sometime stands for every time that is there.
const sometime = report.Time("sometime")

// sameContent reports whether two statuses tell the same, however much time has
// passed between them. Both are left as they are.
func sameContent(a, b v1alpha1.KMSNodeReportStatus) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	alignPromotion(x.Report, y.Report)
	timeless(x)
	timeless(y)
	// Absent, null and empty lists have one meaning in a status that was read back.
	return equality.Semantic.DeepEqual(x, y)
}

// timeless replaces the times that move while nothing happens on a node (package
// report names them) by whether they are there.
func timeless(s *v1alpha1.KMSNodeReportStatus) {
	s.ObservedAt = nil
	for i := range s.Conditions {
		// It moves with the status, which is compared.
		s.Conditions[i].LastTransitionTime.Reset()
	}
	r := s.Report
	if r == nil {
		return
	}
	r.GeneratedAt = ""
	o := &r.Observations
	for _, t := range []*report.Time{&o.Metadata.ProbedAt, &o.Metadata.ValidatedAt, &o.DeepProbe.ProbedAt, &o.State.ConfirmedAt} {
		if *t != "" {
			*t = sometime
		}
	}
	if o.Metadata.Seen != nil {
		o.Metadata.Seen.At = ""
	}
}

// alignPromotion makes two estimates equal that differ by rounding only.
func alignPromotion(a, b *report.NodeReport) {
	if a == nil || b == nil || a.Rotation.Pending == nil || b.Rotation.Pending == nil {
		return
	}
	p, q := a.Rotation.Pending, b.Rotation.Pending
	x, xok := p.EstimatedPromotion.Time()
	y, yok := q.EstimatedPromotion.Time()
	if d := x.Sub(y).Seconds(); xok && yok && d <= promotionRounding && -d <= promotionRounding {
		p.EstimatedPromotion = q.EstimatedPromotion
	}
}
