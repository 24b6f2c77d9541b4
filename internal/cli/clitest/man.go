package clitest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/baokms/baokms/internal/goldentest"
)

// Surroundings are what a command has to do with and the command tree does not know.
type Surroundings struct {
	// ExitStatus is never empty.
	ExitStatus         []Term
	Environment, Files []Term
}

// Term is an entry of a list.
type Term struct{ Name, Text string }

// CheckManPages holds the man pages of a program in dir against its command tree;
// -update writes them. Pages of other programs in dir are left alone. tree makes the
// dressed command tree; around tells of a command's surroundings.
func CheckManPages(t *testing.T, dir string, tree func() *cobra.Command, around func(*cobra.Command) Surroundings) {
	t.Helper()
	root := tree()
	pages := map[string]string{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		pages[pageName(cmd)] = page(t, cmd, around(cmd))
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk(root)
	checkSections(t, pages)
	there := pagesOf(t, dir, root.Name())
	if goldentest.Updating() {
		for _, name := range there {
			if _, wanted := pages[name]; !wanted {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	} else if want := slices.Sorted(maps.Keys(pages)); !slices.Equal(there, want) {
		t.Errorf("%s has %q, the commands need %q; run make generate", dir, there, want)
	}
	for name, page := range pages {
		goldentest.Check(t, filepath.Join(dir, name), page)
	}
}

func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
}

// pagesOf are the names of a program's pages in dir, sorted.
func pagesOf(t *testing.T, dir, program string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() == program+".1" || strings.HasPrefix(e.Name(), program+"-") {
			names = append(names, e.Name())
		}
	}
	return names
}

var (
	heading = regexp.MustCompile(`(?m)^\.SH (.+)$`)
	seeAlso = regexp.MustCompile(`\\fB([a-z-]+)\(1\)\\fP`)
)

// checkSections: the sections come in the order that readers of manuals know, those
// that every page needs are there, and every page that is referred to exists.
func checkSections(t *testing.T, pages map[string]string) {
	t.Helper()
	order := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"}
	needed := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"}
	for name, page := range pages {
		last, missing := -1, slices.Clone(needed)
		for _, m := range heading.FindAllStringSubmatch(page, -1) {
			at := slices.Index(order, m[1])
			if at <= last {
				t.Errorf("%s: section %q is out of place", name, m[1])
			}
			last = at
			missing = slices.DeleteFunc(missing, func(s string) bool { return s == m[1] })
		}
		if len(missing) > 0 {
			t.Errorf("%s: no section %q", name, missing)
		}
		_, also, _ := strings.Cut(page, ".SH SEE ALSO\n")
		for _, m := range seeAlso.FindAllStringSubmatch(also, -1) {
			if _, there := pages[m[1]+".1"]; !there {
				t.Errorf("%s refers to %s, which is no page", name, m[1])
			}
		}
	}
}

var (
	titleLine   = regexp.MustCompile(`(?m)^\.TH .*$`)
	option      = regexp.MustCompile(`(?m)(?:^\.PP\n)?^((?:\\fB-[a-z]\\fP, )?\\fB--[a-z-]+\\fP)="?([^"\n]*?)"?\n\t(.*)$`)
	beyondASCII = regexp.MustCompile(`[^\x00-\x7f]`) // roff has a form of its own for it
	exampleLine = regexp.MustCompile(`(?m)^\.SH EXAMPLE$`)
)

// page is a command's page. The library writes what the command tree has; this adds
// what it does not know of, and takes out what would change by itself.
func page(t *testing.T, cmd *cobra.Command, around Surroundings) string {
	t.Helper()
	cmd.DisableAutoGenTag = true
	cmd.InitDefaultHelpFlag()
	cmd.Long = asMarkdown(cmd.Long)
	cmd.Flags().VisitAll(asManOption)
	var b bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1"}, &b); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(pageName(cmd), ".1")
	page := titleLine.ReplaceAllLiteralString(b.String(), fmt.Sprintf(`.TH "%s" "1" "" "%s" "User Commands"`, strings.ToUpper(name), cmd.Root().Name()))
	page = option.ReplaceAllStringFunc(page, func(whole string) string {
		m := option.FindStringSubmatch(whole)
		if m[2] != "" {
			m[1] += ` \fI` + m[2] + `\fP`
		}
		return ".TP\n" + m[1] + "\n" + m[3]
	})
	if cmd.HasAvailableSubCommands() && bare(cmd) {
		page = strings.Replace(page, cmd.UseLine(), cmd.CommandPath()+" command [flags]", 1)
	}
	page = beyondASCII.ReplaceAllStringFunc(page, func(c string) string { return fmt.Sprintf(`\[u%04X]`, []rune(c)[0]) })
	page = exampleLine.ReplaceAllLiteralString(page, ".SH EXAMPLES")
	body, also, found := strings.Cut(page, ".SH SEE ALSO\n")
	if !found {
		t.Fatalf("%s: no section SEE ALSO in\n%s", name, page)
	}
	return body + section("EXIT STATUS", around.ExitStatus) + section("ENVIRONMENT", around.Environment) +
		section("FILES", around.Files) + ".SH SEE ALSO\n" + also
}

// bare: a command without a flag but --help does nothing by itself.
func bare(cmd *cobra.Command) bool {
	flags := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			flags++
		}
	})
	return flags == 0
}

// asManOption makes the library tell a flag's value by its name, as help does,
// instead of by its default.
func asManOption(f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	if zero := map[string]bool{"": true, "0": true, "0s": true, "false": true, "[]": true}; !zero[f.DefValue] {
		usage += " (default " + f.DefValue + ")"
	}
	f.Usage, f.DefValue, f.NoOptDefVal = asMarkdown(usage), value, ""
}

var special = regexp.MustCompile("[\\\\`*_{}\\[\\]<>&~|]")

// asMarkdown escapes what the library would take for Markdown. Indented lines are
// examples, which it leaves as they are.
func asMarkdown(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !strings.HasPrefix(l, "\t") && !strings.HasPrefix(l, "    ") {
			lines[i] = special.ReplaceAllString(l, `\$0`)
		}
	}
	return strings.Join(lines, "\n")
}

// section is one of terms, in roff; none without terms.
func section(title string, terms []Term) string {
	if len(terms) == 0 {
		return ""
	}
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`)
	var b strings.Builder
	fmt.Fprintf(&b, ".SH %s\n", title)
	for _, e := range terms {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", escape.Replace(e.Name), escape.Replace(e.Text))
	}
	return b.String() + "\n"
}
