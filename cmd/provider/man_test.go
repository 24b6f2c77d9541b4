package main

import (
	"bytes"
	"fmt"
	"io"
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

	"github.com/baokms/baokms/internal/provider/config"
)

// manDir has one page for each command, made from the command tree.
const manDir = "../../docs/man"

// TestManPages holds docs/man against the command tree; -update writes it.
func TestManPages(t *testing.T) {
	pages := manPages(t)
	if *update {
		writePages(t, pages)
	}
	entries, err := os.ReadDir(manDir)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if want := slices.Sorted(maps.Keys(pages)); !slices.Equal(there, want) {
		t.Errorf("docs/man has %q, the commands need %q; run go test ./cmd/provider -update", there, want)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(manDir, name))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("docs/man/%s is not what the command says; run go test ./cmd/provider -update", name)
		}
	}
}

// The sections come in the order that readers of manuals know, and those that
// every page needs are there.
func TestManSections(t *testing.T) {
	order := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"}
	needed := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"}
	heading := regexp.MustCompile(`(?m)^\.SH (.+)$`)
	all := manPages(t)
	for name, page := range all {
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
		for _, m := range regexp.MustCompile(`\\fB([a-z-]+)\(1\)\\fP`).FindAllStringSubmatch(also, -1) {
			if _, there := all[m[1]+".1"]; !there {
				t.Errorf("%s refers to %s, which is no page", name, m[1])
			}
		}
	}
}

// manPages are all pages by their file names.
func manPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = manPage(t, cmd)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk((&app{stdout: io.Discard, stderr: io.Discard}).root())
	return pages
}

func writePages(t *testing.T, pages map[string]string) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(manDir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range old {
		if _, wanted := pages[filepath.Base(file)]; !wanted {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(manDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(manDir, name), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	titleLine   = regexp.MustCompile(`(?m)^\.TH .*$`)
	option      = regexp.MustCompile(`(?m)(?:^\.PP\n)?^((?:\\fB-[a-z]\\fP, )?\\fB--[a-z-]+\\fP)="?([^"\n]*?)"?\n\t(.*)$`)
	beyondASCII = regexp.MustCompile(`[^\x00-\x7f]`) // roff has a form of its own for it
	exampleLine = regexp.MustCompile(`(?m)^\.SH EXAMPLE$`)
)

// manPage is a command's page. The library writes what the command tree has;
// this adds what it does not know of, and takes out what would change by itself.
func manPage(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	cmd.DisableAutoGenTag = true
	cmd.InitDefaultHelpFlag()
	cmd.Long = asMarkdown(cmd.Long)
	cmd.Flags().VisitAll(asManOption)
	var b bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1"}, &b); err != nil {
		t.Fatal(err)
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	page := titleLine.ReplaceAllLiteralString(b.String(), fmt.Sprintf(`.TH "%s" "1" "" "%s" "User Commands"`, strings.ToUpper(name), program))
	page = option.ReplaceAllStringFunc(page, func(whole string) string {
		m := option.FindStringSubmatch(whole)
		if m[2] != "" {
			m[1] += ` \fI` + m[2] + `\fP`
		}
		return ".TP\n" + m[1] + "\n" + m[3]
	})
	if cmd.HasAvailableSubCommands() && cmd.LocalFlags().Lookup("config") == nil {
		page = strings.Replace(page, cmd.UseLine(), cmd.CommandPath()+" command [flags]", 1)
	}
	page = beyondASCII.ReplaceAllStringFunc(page, func(c string) string { return fmt.Sprintf(`\[u%04X]`, []rune(c)[0]) })
	page = exampleLine.ReplaceAllLiteralString(page, ".SH EXAMPLES")
	body, also, found := strings.Cut(page, ".SH SEE ALSO\n")
	if !found {
		t.Fatalf("%s: no section SEE ALSO in\n%s", name, page)
	}
	return body + surroundings(cmd) + ".SH SEE ALSO\n" + also
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

// term is an entry of a list.
type term struct{ name, text string }

// surroundings are the sections about what is around a command. A command that
// is not named here answers with a report about this node.
func surroundings(cmd *cobra.Command) string {
	path := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), program), " ")
	root := path == ""
	configured := root || cmd.Flags().Lookup("config") != nil
	printer := path == "config" || path == "policy openbao"
	bare := slices.Contains([]string{"config schema", "policy", "version"}, path) || strings.HasPrefix(path, "completion")
	report := root || path != "serve" && !printer && !bare

	codes := []term{{"0", "success"}, {"1", "unclassified: for example, the output could not be written"}, {"2", "usage: a flag or an argument"}}
	if configured || report {
		codes = append(codes, term{"3", "configuration: the file is refused"})
	}
	if report {
		codes = append(codes, term{"4", "a check failed: the report says which"})
	}
	if report || path == "serve" {
		codes = append(codes, term{"5", "runtime failure"})
	}
	var environment, files []term
	if configured {
		environment = append(environment,
			term{config.EnvConfig, "the configuration file, unless --config names one"},
			term{config.EnvLogLevel, "overrides logging.level"},
			term{config.EnvMetricsAddress, "overrides server.metricsAddress"},
			term{config.EnvHealthAddress, "overrides server.healthAddress"})
		files = append(files, term{config.DefaultPath, "the configuration"})
	}
	if report {
		environment = append(environment, term{"NO_COLOR", "with any value but an empty one: no colours on a terminal"})
	}
	if configured && !printer {
		files = append(files,
			term{"/var/lib/openbao-kms/state/key-registry.json", "the key registry (state.path), with .checkpoint and .lock beside it"},
			term{"/run/openbao-kms/kms.sock", "the KMS socket (server.socketPath)"})
	}
	return section("EXIT STATUS", codes) + section("ENVIRONMENT", environment) + section("FILES", files)
}

// section is one of terms, in roff; none without terms.
func section(title string, terms []term) string {
	if len(terms) == 0 {
		return ""
	}
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`)
	var b strings.Builder
	fmt.Fprintf(&b, ".SH %s\n", title)
	for _, e := range terms {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", escape.Replace(e.name), escape.Replace(e.text))
	}
	return b.String() + "\n"
}
