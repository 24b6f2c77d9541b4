package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/stack"
)

// storyDirEnv names a directory that keeps what kubectl shows at each stage.
const storyDirEnv = "BAOKMS_STORY_DIR"

// planName is the plan of the story.
const planName = "workload-a-2026q4"

// gitPlan is the plan as it is in Git.
type gitPlan struct {
	maxAge   string
	settle   time.Duration
	retires  bool
	approved string
}

func (p gitPlan) String() string {
	s := fmt.Sprintf(`apiVersion: kms.baokms.io/v1alpha1
kind: KMSRotationPlan
metadata:
  name: %s
spec:
  providerName: %s
  nodes:
    names: [cp-1, cp-2, cp-3]
  reportMaxAge: %s
  settleTime: %s
`, planName, stack.ProviderName, p.maxAge, p.settle)
	if p.retires {
		s += `  retirement:
    beforeVersion: 2
    evidence:
      rewrite: CHG-1042
      backups: CHG-1043
`
	}
	if p.approved != "" {
		s += "    approvedDigest: " + p.approved + "\n"
	}
	return s
}

// stage is what the story has come to.
type stage struct {
	name  string
	phase v1alpha1.Phase
	// row is what kubectl get shows: version, nodes, converged, rewrite-safe and
	// retirement.
	row [5]string
	// because are conditions: their status and reason, and words of their message.
	because map[string]because
}

type because struct {
	status metav1.ConditionStatus
	reason string
	words  []string
}

func is(reason string, words ...string) because { return because{metav1.ConditionTrue, reason, words} }
func not(reason string, words ...string) because {
	return because{metav1.ConditionFalse, reason, words}
}
func unknown(reason string, words ...string) because {
	return because{metav1.ConditionUnknown, reason, words}
}

// story is one plan's life.
type story struct {
	*fleet
	*history
	dir    string
	stages int
}

// apply applies the plan as Git has it.
func (s *story) apply(p gitPlan) { s.t.Helper(); s.runWith(p.String(), "apply", "-f", "-") }

func (s *story) current() (*v1alpha1.KMSRotationPlan, error) {
	p := &v1alpha1.KMSRotationPlan{ObjectMeta: metav1.ObjectMeta{Name: planName}}
	return p, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(p), p)
}

// fits says what of a plan is not as the stage wants it.
func (w stage) fits(p *v1alpha1.KMSRotationPlan) error {
	if p.Status.Phase != w.phase || p.Status.ObservedGeneration != p.Generation {
		return fmt.Errorf("phase %s of generation %d; the spec's is %d", p.Status.Phase, p.Status.ObservedGeneration, p.Generation)
	}
	for name, want := range w.because {
		c := meta.FindStatusCondition(p.Status.Conditions, name)
		if c == nil || c.Status != want.status || c.Reason != want.reason {
			return fmt.Errorf("%s is %+v, want %s %s", name, c, want.status, want.reason)
		}
		for _, words := range want.words {
			if !strings.Contains(c.Message, words) {
				return fmt.Errorf("%s says %q, want %q in it", name, c.Message, words)
			}
		}
	}
	return nil
}

// comesTo waits for a stage, and holds what kubectl shows of it against it.
func (s *story) comesTo(w stage) v1alpha1.KMSRotationPlanStatus {
	s.t.Helper()
	var status v1alpha1.KMSRotationPlanStatus
	eventually(s.t, "the plan comes to the stage "+w.name, func() error {
		p, err := s.current()
		status = p.Status
		if err == nil {
			err = w.fits(p)
		}
		return err
	})
	table := s.run("get", "krp", planName)
	want := map[string]string{"NAME": planName, "PHASE": string(w.phase), "VERSION": w.row[0], "NODES": w.row[1],
		"CONVERGED": w.row[2], "REWRITE-SAFE": w.row[3], "RETIREMENT": w.row[4]}
	got := columns(table)
	for column, value := range want {
		if got[column] != value {
			s.t.Errorf("at the stage %s the column %s of kubectl get krp is %q, want %q\n%s", w.name, column, got[column], value, table)
		}
	}
	described := s.run("describe", "krp", planName)
	for _, b := range w.because {
		for _, words := range b.words {
			if !strings.Contains(strings.Join(strings.Fields(described), " "), words) {
				s.t.Errorf("at the stage %s kubectl describe krp does not show %q", w.name, words)
			}
		}
	}
	s.keep(w.name, table, described)
	return status
}

// columns reads the one row of a table as kubectl prints it.
func columns(table string) map[string]string {
	lines := strings.Split(strings.TrimRight(table, "\n"), "\n")
	row := map[string]string{}
	if len(lines) != 2 {
		return row
	}
	head := lines[0]
	for _, name := range strings.Fields(head) {
		from := strings.Index(head, name)
		to := from + len(name)
		for to < len(head) && head[to] == ' ' {
			to++
		}
		if to == len(head) {
			to = len(lines[1])
		}
		row[name] = strings.TrimSpace(lines[1][min(from, len(lines[1])):min(to, len(lines[1]))])
	}
	return row
}

// keep writes what kubectl showed where somebody can read it.
func (s *story) keep(stage, table, described string) {
	s.t.Helper()
	s.stages++
	name := fmt.Sprintf("%02d-%s.txt", s.stages, strings.ReplaceAll(stage, " ", "-"))
	content := "$ kubectl get krp " + planName + "\n" + table + "\n$ kubectl describe krp " + planName + "\n" + described
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%s\n%s", stage, table)
}
