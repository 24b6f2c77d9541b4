package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/api/v1alpha1"
)

// settleTime is shortened: the API server is started again where five minutes
// would have made sure that it took the new key.
const settleTime = 4 * time.Second

// digest reads what is to be approved, as a reviewer does.
func (s *story) digest() string {
	s.t.Helper()
	digest := s.run("get", "krp", planName, "-o", "jsonpath={.status.retirement.digest}")
	if !strings.HasPrefix(digest, "sha256:") || len(digest) != len("sha256:")+64 {
		s.t.Fatalf("the digest is %q", digest)
	}
	return digest
}

// carryOut applies a node's retirement by the command that the plan's status shows,
// with the provider stopped meanwhile.
func (s *story) carryOut(i int) {
	s.t.Helper()
	name, p := nodeName(i), s.nodes[i].provider
	command := s.run("get", "krp", planName, "-o", fmt.Sprintf("jsonpath={.status.nodes[?(@.name==%q)].retirement.command}", name))
	if !strings.HasPrefix(command, "bao-kms-provider retire-versions --before-version 2 --apply ") {
		s.t.Fatalf("the command for %s is %q", name, command)
	}
	if err := p.Stop(); err != nil {
		s.t.Fatal(err)
	}
	s.eventuallyReachable(name, metav1.ConditionFalse)
	shell := exec.CommandContext(s.t.Context(), "sh", "-c", command)
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(binary(s.t))+":"+os.Getenv("PATH"), "BAO_KMS_PROVIDER_CONFIG="+p.Files.Config)
	if out, err := shell.CombinedOutput(); err != nil {
		s.t.Fatalf("on %s: %v\n%s", name, err, out)
	}
	if err := p.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.eventuallyReachable(name, metav1.ConditionTrue)
	if got := registryOf(s.t, p).version(1).State; got != "removed" {
		s.t.Errorf("on %s version 1 is %q", name, got)
	}
}

// changesMeanwhile: somebody retires version 1 on a node by hand and takes it back.
// What the node does is as before, but its registry is not the one that was
// reviewed.
func (s *story) changesMeanwhile(i int) {
	s.t.Helper()
	p := s.nodes[i].provider
	retire := []string{"retire-versions", "--before-version", "2"}
	restore := []string{"restore-versions", "--versions", "1"}
	retired := plans(s.t, p, retire...)
	if err := p.Stop(); err != nil {
		s.t.Fatal(err)
	}
	asks(s.t, p, 0, applyOf(retired, retire...)...)
	applies(s.t, p, plans(s.t, p, restore...), restore...)
}

// TestAPlansLife: a rotation and a retirement over three nodes, with everything
// that an operator sees of it: rotated, converged, settled, rewritten, reviewed,
// approved, applied on one node, changed on another, reviewed and approved again,
// applied there. Secrets are written and read all the time.
func TestAPlansLife(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	s := &story{fleet: f, history: f.follow(planName), dir: os.Getenv(storyDirEnv)}
	if s.dir == "" {
		s.dir = t.ArtifactDir()
	}
	git := gitPlan{maxAge: "45s", settle: settleTime}
	f.startManager()

	s.apply(git)
	s.comesTo(stage{"observing", v1alpha1.Observing, [5]string{"", "0/3", "False", "False", ""}, map[string]because{
		"NodesReporting": not("ReportsMissing", "cp-1, cp-2 and cp-3 have no KMSNodeReport"),
		"Converged":      not("NodesNotReporting"),
	}})
	f.startReporters(0)
	s.comesTo(stage{"safe to rewrite before anything", v1alpha1.RewriteSafe, [5]string{"1", "3/3", "True", "True", ""}, map[string]because{
		"NodesReporting":  is("AllReporting"),
		"Converged":       is("AllAgree"),
		"PreflightPassed": is("AllPassed"),
		"Degraded":        not("Consistent"),
		"Ready":           is("RewriteSafe"),
	}})

	// The key is rotated.
	if _, err := f.transit.Rotate(t.Context(), f.transit.Key()); err != nil {
		t.Fatal(err)
	}
	s.comesTo(stage{"rotating", v1alpha1.Rotating, [5]string{"", "2/3", "False", "False", ""}, map[string]because{
		"NodesReporting": is("AllReporting"),
		"Converged":      not("RotationPending", "cp-3 (version 2, seen", "cp-1 and cp-2 with version 2"),
		"RewriteSafe":    not("NotConverged", "Do not rewrite yet."),
		"Ready":          not("Rotating"),
	}})
	settling := s.comesTo(stage{"settling", v1alpha1.Settling, [5]string{"2", "3/3", "True", "False", ""}, map[string]because{
		"Converged":   is("AllAgree"),
		"RewriteSafe": not("Settling", "Do not rewrite before"),
	}})
	safe := s.comesTo(stage{"safe to rewrite", v1alpha1.RewriteSafe, [5]string{"2", "3/3", "True", "True", ""}, map[string]because{
		"RewriteSafe": is("Settled", "Encrypted objects may be rewritten now."),
		"Ready":       is("RewriteSafe"),
	}})
	if !safe.ConvergedSince.Equal(settling.ConvergedSince) || safe.RewriteSafeAfter.Sub(safe.ConvergedSince.Time) != settleTime {
		t.Errorf("the clock ran from %v to %v, and from %v while it settled", safe.ConvergedSince, safe.RewriteSafeAfter, settling.ConvergedSince)
	}
	s.wentThrough("Observing", "Settling", "RewriteSafe", "Rotating", "Settling", "RewriteSafe")
	f.restartAPIServer()
	f.rewriteAll()

	// The retirement is asked for.
	git.retires = true
	s.apply(git)
	awaiting := stage{"awaiting review", v1alpha1.AwaitingReview, [5]string{"2", "3/3", "True", "True", "planned"}, map[string]because{
		"RetirementPlanned":  is("SameVersions", "All 3 nodes (cp-1, cp-2 and cp-3): retiring below version 2 removes version 1."),
		"RetirementApproved": not("NotApproved"),
		"RetirementApplied":  not("NotApproved"),
		"Ready":              not("AwaitingReview"),
	}}
	s.comesTo(awaiting)
	first := s.digest()

	// A node falls silent. Nobody knows what it does meanwhile, so the clock starts
	// again when it is back.
	if err := f.reporters["cp-2"].Stop(); err != nil {
		t.Fatal(err)
	}
	hasty := git
	hasty.maxAge = "5s"
	s.apply(hasty)
	silent := s.comesTo(stage{"a node silent", v1alpha1.Observing, [5]string{"", "2/3", "False", "False", "planned"}, map[string]because{
		"NodesReporting":    not("ReportsTooOld", "cp-2 (last seen", "has not reported for 5s or longer"),
		"Converged":         not("NodesNotReporting", "cp-2 has no report that counts"),
		"RewriteSafe":       not("NotConverged"),
		"RetirementPlanned": unknown("NodesNotReporting"),
		"Degraded":          unknown("NodesNotReporting"),
	}})
	if silent.ConvergedSince != nil || silent.RewriteSafeAfter != nil {
		t.Errorf("the clock runs from %v to %v although a node is silent", silent.ConvergedSince, silent.RewriteSafeAfter)
	}
	if err := f.reporters["cp-2"].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.apply(git)
	awaiting.name = "awaiting review again"
	back := s.comesTo(awaiting)
	if !back.ConvergedSince.After(safe.ConvergedSince.Time) {
		t.Errorf("the clock did not start again: it ran since %v, and runs since %v", safe.ConvergedSince, back.ConvergedSince)
	}
	if again := s.digest(); again != first {
		t.Errorf("the digest changed from %s to %s although no node did", first, again)
	}

	// Reviewed, approved, and applied on the first node.
	git.approved = first
	s.apply(git)
	s.comesTo(stage{"approved", v1alpha1.Approved, [5]string{"2", "3/3", "True", "True", "approved"}, map[string]because{
		"RetirementApproved": is("Approved", first, "Run nodes[].retirement.command on cp-1, cp-2 and cp-3"),
		"RetirementApplied":  not("NotApplied"),
	}})
	s.carryOut(0)
	// A provider that was stopped broke the convergence: each of these stages settles.
	s.comesTo(stage{"applying", v1alpha1.Applying, [5]string{"2", "3/3", "True", "True", "1/3 applied"}, map[string]because{
		"RewriteSafe":        is("Settled"),
		"RetirementApproved": is("Approved", first, "on cp-2 and cp-3, one node after the other"),
		"RetirementApplied":  not("PartlyApplied", "cp-1 has applied it"),
	}})

	// Another node changes in between: the approval lapses.
	s.changesMeanwhile(2)
	lapsed := s.comesTo(stage{"lapsed", v1alpha1.Degraded, [5]string{"2", "3/3", "True", "True", "approval lapsed"}, map[string]because{
		"RewriteSafe":        is("Settled"),
		"RetirementPlanned":  is("SameVersions"),
		"RetirementApproved": not("PlanChanged", "cp-3 differs from what was approved", "Apply nothing."),
		"RetirementApplied":  not("NotApproved"),
		"Degraded":           is("ApprovedPlanChanged", "cp-3 differs from what was approved"),
		"Ready":              not("Degraded"),
	}})
	for _, n := range lapsed.Nodes {
		if n.Retirement.Command != "" {
			t.Errorf("the status shows a command for %s although no approval counts: %s", n.Name, n.Retirement.Command)
		}
		if changed := n.Retirement.State == v1alpha1.RetirementChanged; changed != (n.Name == "cp-3") {
			t.Errorf("the retirement of %s is %s", n.Name, n.Retirement.State)
		}
	}
	if git.approved = s.digest(); git.approved == first {
		t.Fatal("the digest is the old one although a node changed")
	}

	// Reviewed and approved again, and applied on the others.
	s.apply(git)
	s.comesTo(stage{"applying again", v1alpha1.Applying, [5]string{"2", "3/3", "True", "True", "1/3 applied"}, map[string]because{
		"RewriteSafe":        is("Settled"),
		"RetirementApproved": is("Approved", git.approved, "on cp-2 and cp-3, one node after the other"),
		"Degraded":           not("Consistent"),
	}})
	s.carryOut(1)
	s.comesTo(stage{"two of three", v1alpha1.Applying, [5]string{"2", "3/3", "True", "True", "2/3 applied"}, map[string]because{
		"RewriteSafe":       is("Settled"),
		"RetirementApplied": not("PartlyApplied", "cp-1 and cp-2 have applied it", "on cp-3"),
	}})
	s.carryOut(2)
	s.comesTo(stage{"retired", v1alpha1.Retired, [5]string{"2", "3/3", "True", "True", "retired"}, map[string]because{
		"RewriteSafe":       is("Settled"),
		"RetirementApplied": is("AllApplied", "retirement below version 2", "This does not say that a minimum version may be raised"),
		"Degraded":          not("Consistent"),
		"Ready":             is("Retired"),
	}})

	s.wentThrough("Observing", "Settling", "RewriteSafe", "Rotating", "Settling", "RewriteSafe", "AwaitingReview",
		"Observing", "Settling", "AwaitingReview", "Approved", "Applying", "Degraded", "Applying", "Retired")
	s.eventsTellEachChangeOnce()
	// An API server without anything in memory reads all of it.
	f.restartAPIServer()
	f.load.stopAndReadAll()
}
