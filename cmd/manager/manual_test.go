package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/cli/clitest"
)

const root = "../../"

// manual is docs/manager.md.
func manual(t *testing.T) string {
	t.Helper()
	return readFile(t, "docs/manager.md")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sectionOf is what is below a heading of the manual, to the next of its level or
// above.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(manual(t), "\n"+heading+"\n")
	if !found {
		t.Fatalf("the manual has no %q", heading)
	}
	level := strings.IndexByte(heading, ' ')
	if end := regexp.MustCompile(`(?m)^#{1,` + strconv.Itoa(level) + `} `).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

// cells are the first cells of the rows of a section's tables that hold one code.
func cells(section string) []string {
	var codes []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		codes = append(codes, m[1])
	}
	return codes
}

// constants are the string constants of a package whose names match.
func constants(t *testing.T, dir, name string) []string {
	t.Helper()
	entries, err := fs.Glob(os.DirFS(root+dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	matches, values := regexp.MustCompile(name), []string{}
	for _, e := range entries {
		if strings.HasSuffix(e, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root+dir, e), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 && matches.MatchString(spec.Names[0].Name) {
				if v, ok := spec.Values[0].(*ast.BasicLit); ok && v.Kind == token.STRING {
					value, err := strconv.Unquote(v.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, value)
				}
			}
			return true
		})
	}
	if len(values) < 3 {
		t.Fatalf("%s has only %q for %s", dir, values, name)
	}
	return values
}

// same compares two sets, each of which must hold a value once.
func same(t *testing.T, what string, documented, known []string) {
	t.Helper()
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("%s: the manual has\n%q, there are\n%q", what, documented, known)
	}
}

// TestManualReasons: every reason that a program can give is explained, once, and
// no other.
func TestManualReasons(t *testing.T) {
	conditions := sectionOf(t, "### Reasons of a plan's conditions")
	same(t, "reasons of conditions", cells(conditions), constants(t, "internal/controller/assess", "^Reason"))
	same(t, "reasons of a node", cells(sectionOf(t, "### Reasons of a node in a plan")), constants(t, "internal/controller/assess", "^Node(Report|Provider)"))
	reports := sectionOf(t, "### Reasons of a report")
	same(t, "reasons of ProviderReachable", cells(reports), constants(t, "internal/controller/reporter", "^reason"))
	for _, problem := range constants(t, "internal/controller/reporter", "^problem[A-Z]") {
		if !strings.Contains(reports, "`"+problem+"`") {
			t.Errorf("the manual does not explain %s", problem)
		}
	}
}

// kinds are the CRDs, by their short names.
func kinds(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range []string{"kmsrotationplans", "kmsnodereports"} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict([]byte(readFile(t, "config/crd/kms.baokms.io_"+file+".yaml")), crd); err != nil {
			t.Fatal(err)
		}
		all[crd.Spec.Names.ShortNames[0]] = crd
	}
	return all
}

// TestManualColumns: what kubectl get shows, and no other column.
func TestManualColumns(t *testing.T) {
	for name, crd := range kinds(t) {
		want := []string{"NAME"}
		for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			if c.Priority == 0 {
				want = append(want, strings.ToUpper(c.Name))
			}
		}
		found := 0
		for line := range strings.Lines(manual(t)) {
			head := strings.Fields(line)
			if len(head) < 2 || head[0] != "NAME" || head[1] != want[1] {
				continue
			}
			found++
			if !slices.Equal(head, want) {
				t.Errorf("%s: the manual has the columns %q, there are %q", name, head, want)
			}
		}
		if found == 0 {
			t.Errorf("the manual does not show %s with its column %s", name, want[1])
		}
	}
}

// TestManualConditionsAndPhases: all of them, and no other.
func TestManualConditionsAndPhases(t *testing.T) {
	schema := kinds(t)["krp"].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	var phases []string
	for _, v := range schema.Properties["phase"].Enum {
		phases = append(phases, strings.Trim(string(v.Raw), `"`))
	}
	same(t, "phases", cells(sectionOf(t, "### Phases")), phases)
	all, _, _ := strings.Cut(sectionOf(t, "## Conditions and reasons"), "\n### ")
	same(t, "conditions", cells(all), []string{
		v1alpha1.ConditionNodesReporting, v1alpha1.ConditionConverged, v1alpha1.ConditionRewriteSafe, v1alpha1.ConditionPreflightPassed,
		v1alpha1.ConditionRetirementPlanned, v1alpha1.ConditionRetirementApproved, v1alpha1.ConditionRetirementApplied,
		v1alpha1.ConditionDegraded, v1alpha1.ConditionReady})
}

// TestManualFields: every field that is named is one of the API's.
func TestManualFields(t *testing.T) {
	crds, found := kinds(t), 0
	for _, m := range regexp.MustCompile("`((?:spec|status)(?:\\.[A-Za-z]+(?:\\[\\])?)+)`").FindAllStringSubmatch(manual(t), -1) {
		found++
		ok := false
		for _, crd := range crds {
			ok = ok || has(*crd.Spec.Versions[0].Schema.OpenAPIV3Schema, strings.Split(strings.ReplaceAll(m[1], "[]", ""), "."))
		}
		if !ok {
			t.Errorf("no kind has the field %s", m[1])
		}
	}
	if found < 10 {
		t.Errorf("only %d fields were found", found)
	}
}

func has(s apiextensionsv1.JSONSchemaProps, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if s.Items != nil {
		s = *s.Items.Schema
	}
	next, ok := s.Properties[path[0]]
	return ok && has(next, path[1:])
}

// TestManualPlans: each plan that is shown has only fields that there are.
func TestManualPlans(t *testing.T) {
	found := 0
	for _, m := range regexp.MustCompile("(?s)( *)```yaml\n(.*?)```").FindAllStringSubmatch(manual(t), -1) {
		if !strings.Contains(m[2], "kind: KMSRotationPlan") {
			continue
		}
		found++
		plan := &v1alpha1.KMSRotationPlan{}
		text := strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")
		if err := yaml.UnmarshalStrict([]byte(text), plan); err != nil {
			t.Errorf("%v in\n%s", err, text)
		} else if plan.Spec.ProviderName == "" || len(plan.Spec.Nodes.Names) == 0 {
			t.Errorf("the plan is empty:\n%s", text)
		}
	}
	if found < 3 {
		t.Errorf("only %d plans were found", found)
	}
}

// TestManualMetrics: all metrics of plans and reports, and no other.
func TestManualMetrics(t *testing.T) {
	names := func(text string) []string {
		all := map[string]bool{}
		for _, name := range regexp.MustCompile(`\bbaokms_manager_[a-z_]+`).FindAllString(text, -1) {
			all[name] = true
		}
		return slices.Collect(maps.Keys(all))
	}
	same(t, "metrics", names(manual(t)), names(readFile(t, "internal/controller/plan/metrics.go")))
}

// TestManualCalls: every call of the program in the documentation is one that it
// understands, and every folder that the manual refers to is there.
func TestManualCalls(t *testing.T) {
	pages, err := filepath.Glob(root + "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, root+"README.md") {
		found += clitest.CheckDocument(t, page, func(stdout *bytes.Buffer) *cobra.Command {
			return (&app{stdout: stdout, stderr: io.Discard, getenv: func(string) string { return "" }}).root()
		})
	}
	if found < 3 {
		t.Errorf("only %d calls were found", found)
	}
}

// TestLinks: what a page refers to in this repository is there.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob(root + "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range append(pages, root+"README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s refers to %s, which is not there", page, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t, file), anchor) {
				t.Errorf("%s refers to %s, and there is no such heading", page, m[1])
			}
		}
	}
}

// anchors are the names of a page's headings in a link.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(b), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}
