package view

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// The head of the JSON form.
const (
	APIVersion = "manager.kms.baokms.io/v1alpha1"
	Kind       = "PlanView"
)

// View is one plan at one moment.
type View struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// ViewedAt is the moment.
	ViewedAt metav1.Time `json:"viewedAt"`
	Name     string      `json:"name"`
	// ProviderName is the spec's.
	ProviderName string `json:"providerName"`
	// Judged says that Status is about the plan's present spec. While it is false,
	// nothing in Status may be relied on.
	Judged bool `json:"judged"`
	// Overdue says that the manager should have written the status again by now: it
	// may be long out of date.
	Overdue bool `json:"overdue"`
	// Status is the plan's.
	Status v1alpha1.KMSRotationPlanStatus `json:"status"`
	// Next is what to do now.
	Next []Step `json:"next"`
}

// Step is one thing to do.
type Step struct {
	Text string `json:"text"`
	// Node is where, when it is one node; Command is what to run there.
	Node    string `json:"node,omitempty"`
	Command string `json:"command,omitempty"`
}

// Of is the view of a plan. Without a plan there is none: it must not be nil.
func Of(plan *v1alpha1.KMSRotationPlan, now time.Time) View {
	v := View{
		APIVersion:   APIVersion,
		Kind:         Kind,
		ViewedAt:     metav1.NewTime(now.UTC().Truncate(time.Second)),
		Name:         plan.Name,
		ProviderName: plan.Spec.ProviderName,
		Judged:       plan.Status.Phase != "" && plan.Status.ObservedGeneration == plan.Generation,
		Status:       *plan.Status.DeepCopy(),
	}
	v.Overdue = v.Judged && overdue(plan, now)
	v.Next = v.steps()
	return v
}

// longestStill is for how long at most a status of nodes that report stays as it is,
// beside the reports' own age: assess lets lastSeen fall ten minutes behind.
const longestStill = 10 * time.Minute

// overdue reports whether the status tells of nodes that report, and has been left
// alone for longer than a manager would.
func overdue(plan *v1alpha1.KMSRotationPlan, now time.Time) bool {
	if !meta.IsStatusConditionTrue(plan.Status.Conditions, v1alpha1.ConditionNodesReporting) {
		return false
	}
	for _, n := range plan.Status.Nodes {
		if n.LastSeen != nil && now.Sub(n.LastSeen.Time) > longestStill+2*plan.Spec.ReportMaxAge.Duration {
			return true
		}
	}
	return false
}

// steps are what to do now, from what the status says.
func (v View) steps() []Step {
	if !v.Judged {
		return []Step{{Text: "The manager has not judged this spec yet. If it stays so, look whether bao-kms-manager run is running and what it logs."}}
	}
	var steps []Step
	if v.Overdue {
		steps = append(steps, Step{Text: "Rely on nothing here: the manager has not written for too long. Look whether bao-kms-manager run is running and what it logs."})
	}
	if ready := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		steps = append(steps, Step{Text: ready.Message})
	}
	// A command is there only while it is approved and not applied.
	for _, n := range v.Status.Nodes {
		if n.Retirement != nil && n.Retirement.Command != "" {
			steps = append(steps, Step{Text: fmt.Sprintf("On node %s:", n.Name), Node: n.Name, Command: n.Retirement.Command})
		}
	}
	return steps
}

// WriteJSON writes the view as indented JSON.
func WriteJSON(w io.Writer, v View) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the view: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
