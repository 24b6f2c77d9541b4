package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// auditPolicy records what the node reporters ask of the API server.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:` + managerNamespace + `:` + reporterAccount + `"]
- level: None
`

// auditFlags are the API server's flags for it, and the path of the log.
func auditFlags(t *testing.T) (flags []string, log string) {
	t.Helper()
	dir := stacktest.Dir(t)
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	must(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}, log
}

// lines counts the lines of a file.
func lines(t *testing.T, file string) int { t.Helper(); return strings.Count(read(t, file), "\n") }

// talk is how much the reporters have said: to the API server, and each in its log.
func (f *fleet) talk(audit string) (requests int, logged map[string]int) {
	f.t.Helper()
	logged = map[string]int{}
	for name, r := range f.reporters {
		logged[name] = lines(f.t, r.Log)
	}
	return lines(f.t, audit), logged
}

// goesOn waits until the load has done this many reads more.
func (f *fleet) goesOn(reads int) {
	f.t.Helper()
	_, from := f.load.so()
	eventually(f.t, "the load goes on", func() error {
		if _, now := f.load.so(); now < from+reads {
			return fmt.Errorf("%d reads of %d", now-from, reads)
		}
		return nil
	})
}

// undisturbed: no provider has logged anything but good news, or is unready.
func (f *fleet) undisturbed() {
	f.t.Helper()
	for i, n := range f.nodes {
		for line := range strings.Lines(read(f.t, n.provider.Files.Log)) {
			if !strings.Contains(line, `"level":"info"`) {
				f.t.Errorf("the provider of %s logs: %s", nodeName(i), line)
			}
		}
		if r, err := readiness(f.t.Context(), n.provider); err != nil || r.Status != "ready" {
			f.t.Errorf("the provider of %s is %+v, %v", nodeName(i), r, err)
		}
	}
}

// TestTheManagerIsTakenAway: while Secrets are written and read, the manager is
// killed, its objects are deleted, and then its kinds with every plan and report.
// Nothing in the data path is disturbed, node reporters keep calm, versions are
// retired without any of it, and when the kinds come back so do the reports.
func TestTheManagerIsTakenAway(t *testing.T) {
	t.Parallel()
	const interval = 2 * time.Second
	flags, audit := auditFlags(t)
	f := newFleet(t, fleetOptions{rotated: true, flags: flags})
	s := &story{fleet: f, history: f.follow(planName), dir: t.ArtifactDir()}
	f.startManager()
	f.startReporters(interval)
	// Without a settle time all that there is to say is that the nodes agree.
	git := gitPlan{maxAge: "45s"}
	s.apply(git)
	converged := stage{"converged", v1alpha1.Converged, [5]string{"2", "3/3", "True", "True", ""}, map[string]because{"Ready": is("Converged")}}
	s.comesTo(converged)

	// The manager goes, then its objects, then its kinds with all plans and reports.
	f.manager.Kill()
	f.run("delete", "deployment,daemonset,poddisruptionbudget,service,lease", "--all", "--namespace", managerNamespace)
	f.run("delete", "-k", f.manifests("crd"))
	for _, kind := range []string{"krp", "knr"} {
		if out, err := f.kubectl.Run(t.Context(), "get", kind); err == nil || !strings.Contains(err.Error(), "the server could not find the requested resource") {
			t.Errorf("kubectl get %s: %q, %v", kind, out, err)
		}
	}

	// Each reporter notices, says so once, and tries again now and then.
	eventually(t, "the reporters notice", func() error {
		for name, r := range f.reporters {
			if log := read(t, r.Log); !strings.Contains(log, "report.unwritten") || !strings.Contains(log, "plans.unavailable") {
				return fmt.Errorf("the one of %s does not", name)
			}
			if code, said, err := r.Check(t.Context(), "/readyz"); err != nil || code == 200 {
				return fmt.Errorf("the one of %s is ready: %d %s %w", name, code, said, err)
			}
		}
		return nil
	})
	requests, logged := f.talk(audit)
	began := time.Now()
	f.goesOn(250)
	requestsNow, loggedNow := f.talk(audit)
	passed := time.Since(began)
	for name := range f.reporters {
		if n := loggedNow[name] - logged[name]; n > 2 {
			t.Errorf("the reporter of %s logged %d lines in %v while its kinds were gone", name, n, passed)
		}
	}
	// A look each one or two seconds with two requests, and a list of plans.
	asked := requestsNow - requests
	if most := 3 * len(f.reporters) * int(passed/time.Second+1); asked == 0 || asked > most {
		t.Errorf("the reporters made %d requests in %v, want some and %d at most", asked, passed, most)
	}
	t.Logf("three reporters without their kinds: %d requests in %v, lines logged before %v and then %v", asked, passed.Round(time.Millisecond), logged, loggedNow)
	f.undisturbed()

	// Version 1 is retired on every node, by the providers' own commands.
	retire := []string{"retire-versions", "--before-version", "2"}
	for _, n := range f.nodes {
		plan := plans(t, n.provider, retire...)
		if !slices.Equal(plan.RemovedVersions, []int{1}) {
			t.Errorf("the plan is %+v", plan)
		}
		applies(t, n.provider, plan, retire...)
	}

	// The kinds come back, and with them everything that is known.
	f.run("apply", "--server-side", "-k", f.manifests("crd"))
	f.kindsServed()
	for name, r := range f.reporters {
		if err := r.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the report of "+name+" comes back", func() error {
			o, err := f.report(name)
			if err == nil && (o.Status.Report == nil || o.Status.Report.ActiveKey.TransitVersion != 2) {
				err = errors.New("it is empty or old")
			}
			return err
		})
	}
	f.startManager()
	git.retires = true
	s.apply(git)
	s.comesTo(stage{"back", v1alpha1.AwaitingReview, [5]string{"2", "3/3", "True", "True", "planned"}, map[string]because{
		"Converged":         is("AllAgree", "version 2"),
		"RetirementPlanned": is("NothingToRemove"),
		"Degraded":          not("Consistent"),
	}})
	f.load.stopAndReadAll()
}
