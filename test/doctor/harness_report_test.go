package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/observe/canarytest"
	"github.com/baokms/baokms/test/stack"
)

var (
	aToken = regexp.MustCompile(`\b(hvs|hvb|s|b)\.[A-Za-z0-9_-]{20,}`)
	aJWT   = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}`)
	aPath  = regexp.MustCompile(`(^|[\s"'(=:])/(tmp|etc|var|run|work|root|home|dev|v1)\b`)
)

// holdsNoSecret fails the test for what may never be in a report (design: overview, invariant 10; config-and-cli).
func holdsNoSecret(t *testing.T, w *world, r *command.Report) {
	t.Helper()
	raw, err := json.Marshal(r)
	must(t, err)
	canarytest.New(t, canaries(t, w)).Bytes(t, "the report", raw)
	for _, c := range r.Checks {
		text := c.Message + "\n" + c.NextStep
		for what, form := range map[string]*regexp.Regexp{"a token": aToken, "a JWT": aJWT, "the path of a file or of OpenBao": aPath} {
			if hit := form.FindString(text); hit != "" {
				t.Errorf("%s holds %s (%q): %s", c.ID, what, hit, text)
			}
		}
	}
}

// canaries are what this node must keep to itself, as it is now.
func canaries(t *testing.T, w *world) map[string]string {
	t.Helper()
	found := map[string]string{
		"mount path": mount, "first part of the mount path": strings.Split(mount, "/")[0], "key name": key,
		"login path": stack.JWTMount + "/", "certificate login path": stack.CertMount + "/",
		"the node's directory": w.files.Dir, "the CA's directory": filepath.Dir(w.transit.CAFile()),
	}
	if info, err := os.Lstat(w.files.JWT); err == nil && info.Mode().IsRegular() {
		content, err := os.ReadFile(w.files.JWT)
		must(t, err)
		if jwt := strings.TrimSpace(string(content)); len(jwt) > 20 {
			found["JWT"] = jwt
			for i, part := range strings.Split(jwt, ".") {
				if len(part) > 20 {
					found[fmt.Sprintf("part %d of the JWT", i)] = part
				}
			}
		}
	}
	if content, err := os.ReadFile(w.files.State); err == nil {
		for i, hit := range regexp.MustCompile(`"kubernetesKeyId":\s*"([^"]{12,})"`).FindAllStringSubmatch(string(content), -1) {
			found[fmt.Sprintf("key_id %d", i)] = hit[1]
		}
	}
	return found
}

var aReason = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// wellFormed fails the test where a check does not say what its result needs (package command, Check).
func wellFormed(t *testing.T, r *command.Report) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range r.Checks {
		found := c.Result == command.Warn || c.Result == command.Fail
		switch {
		case seen[c.ID]:
			t.Errorf("%s is told twice", c.ID)
		case !slices.Contains([]command.Result{command.Pass, command.Warn, command.Skip, command.Fail}, c.Result):
			t.Errorf("%s has the result %q", c.ID, c.Result)
		case c.Impact != command.Safety && c.Impact != command.Availability:
			t.Errorf("%s has the impact %q", c.ID, c.Impact)
		case found && (!aReason.MatchString(c.Reason) || c.Message == "" || c.NextStep == ""):
			t.Errorf("%s does not say its reason, what was found or the next step: %+v", c.ID, c)
		case !found && (c.Reason != "" || c.NextStep != ""):
			t.Errorf("%s has a reason or a next step although it is a %s: %+v", c.ID, c.Result, c)
		case c.Result == command.Skip && c.Message == "" && len(c.SkippedBecause) == 0:
			t.Errorf("%s is skipped and does not say why", c.ID)
		case strings.ContainsAny(c.Message+c.NextStep, "\n\t") || strings.HasSuffix(c.Message, ".") || strings.HasSuffix(c.NextStep, "."):
			t.Errorf("%s: message and next step must be one line without a period: %+v", c.ID, c)
		}
		seen[c.ID] = true
	}
	if want := command.Worst(r.Checks); r.Result != want {
		t.Errorf("the report's result is %s, its checks' worst is %s", r.Result, want)
	}
}

// checkOf is one check of a report.
func checkOf(t *testing.T, r *command.Report, id string) command.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("the report has no check %s", id)
	return command.Check{}
}

// expect holds one check against its result, its reason ("" for none) and words that its message or next step must have.
func expect(t *testing.T, r *command.Report, id string, result command.Result, reason string, words ...string) {
	t.Helper()
	c := checkOf(t, r, id)
	if c.Result != result || c.Reason != reason {
		t.Errorf("%s is %s %q, want %s %q: %s", id, c.Result, c.Reason, result, reason, told(c))
		return
	}
	for _, word := range words {
		if !strings.Contains(c.Message+"; "+c.NextStep, word) {
			t.Errorf("%s does not say %q: %s", id, word, told(c))
		}
	}
}

// onlyFails asserts that exactly these checks fail or warn: everything else passes or is skipped.
func onlyFails(t *testing.T, r *command.Report, ids ...string) {
	t.Helper()
	for _, id := range ids {
		checkOf(t, r, id)
	}
	for _, c := range r.Checks {
		found := c.Result == command.Fail || c.Result == command.Warn
		if want := slices.Contains(ids, c.ID); found != want {
			t.Errorf("%s is %s: %s", c.ID, c.Result, told(c))
		}
	}
}

// stopped asserts that no provider runs on a node that has served, which is a failure of its own, and that beside it exactly these checks
// fail or warn.
func stopped(t *testing.T, r *command.Report, ids ...string) {
	t.Helper()
	expect(t, r, "socket.kms", command.Fail, "provider_not_running", "no provider serves server.socketPath", "systemctl start bao-kms-provider", "journalctl -u bao-kms-provider")
	skippedBecause(t, r, "status.consistency", "socket.kms")
	onlyFails(t, r, append([]string{"socket.kms"}, ids...)...)
}

// passes asserts that these checks pass, so that none of them was skipped.
func passes(t *testing.T, r *command.Report, ids ...string) {
	t.Helper()
	for _, id := range ids {
		expect(t, r, id, command.Pass, "")
	}
}

func told(c command.Check) string {
	return fmt.Sprintf("%s; %s %v", c.Message, c.NextStep, c.SkippedBecause)
}
