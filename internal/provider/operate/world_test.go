package operate

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/store"
)

var rules = registry.Rules{StableObservations: 1, RejectRollback: true}

// world is a stopped node: a configuration, files, and what OpenBao would say.
type world struct {
	t      testing.TB
	o      diagnose.Options
	config *config.Config
	md     registry.Metadata
	open   func(path string) (files, error)
	// planned counts the plans that an apply has made.
	planned int
}

const document = `configVersion: v1alpha1
server:
  socketPath: %[1]s/kms.sock
  socketGroup: "%[2]d"
openbao:
  address: https://bao.example:8200
  caCertFile: %[1]s/ca.pem
  tlsServerName: bao.example
  instanceId: bao-a
auth:
  method: jwt
  jwt:
    mountPath: auth/jwt
    role: kms
    jwtFile: %[1]s/jwt
transit:
  mountPath: transit-kms
  keyName: workload-a
  keyIdScope:
    providerName: openbao-kms
    clusterId: cluster-a
    transitMountId: mount-a
    keyLineageId: lineage-a
state:
  path: %[1]s/state/registry.json
rotation:
  requireStableObservationCount: 1
`

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, document, dir, os.Getgid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, o: diagnose.Options{ConfigPath: path, Getenv: func(string) string { return "" }}, open: open}
	var err error
	if w.config, err = config.Load(path); err != nil {
		t.Fatal(err)
	}
	return w
}

// metadata is a key with this many versions and a minimum.
func metadata(latest, lowest int) registry.Metadata {
	md := registry.Metadata{Latest: latest, CreatedAtUnix: map[int]int64{}, MinDecryption: lowest}
	for v := max(1, lowest); v <= latest; v++ {
		md.CreatedAtUnix[v] = 1_700_000_000 + int64(v)
	}
	return md
}

// rotated is a life in which the versions up to latest were promoted one after
// the other; the files hold the last registry of it.
func (w *world) rotated(latest int) *registry.Registry {
	w.t.Helper()
	r, err := registry.Bootstrap(w.config.Scope(), w.config.Fingerprint(), metadata(1, 0), 1_750_000_000)
	w.must(err)
	for v := 2; v <= latest; v++ {
		r, _, err = r.Observe(metadata(v, 0), rules, 1_750_000_000)
		w.must(err)
		r, _, err = r.Promote(metadata(v, 0), rules, true, 1_750_000_000)
		w.must(err)
	}
	w.md = metadata(latest, 0)
	w.put(r)
	return r
}

// put leaves the files as a confirmed save of r does.
func (w *world) put(r *registry.Registry) {
	w.t.Helper()
	checkpoint := fmt.Sprintf("{\n  \"schema\": \"keyregistry.baokms/checkpoint/v1\",\n  \"generation\": %d,\n  \"hash\": %q\n}\n", r.Generation(), r.Hash())
	for path, content := range map[string][]byte{w.config.State.Path: r.Encode(), w.config.State.Path + ".checkpoint": []byte(checkpoint)} {
		w.must(os.WriteFile(path, content, 0o600))
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// saved is what the files hold, which must be whole.
func (w *world) saved() *registry.Registry {
	w.t.Helper()
	found, err := store.Inspect(w.config.State.Path)
	w.must(err)
	if found.Interrupted {
		w.t.Fatal("the files hold a save that is not complete")
	}
	return found.Registry
}

// content is every byte in the state directory but the lock file's.
func (w *world) content() map[string]string {
	w.t.Helper()
	dir := filepath.Dir(w.config.State.Path)
	names, err := os.ReadDir(dir)
	w.must(err)
	all := map[string]string{}
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".lock") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, n.Name()))
		w.must(err)
		all[n.Name()] = string(b)
	}
	return all
}

func (w *world) untouched(before map[string]string) {
	w.t.Helper()
	if after := w.content(); !maps.Equal(before, after) {
		w.t.Errorf("the files were changed:\n%v\nbefore\n%v", after, before)
	}
}

// planOf is what diagnose's plan is with this world's metadata: the registry's
// own transition of what the files hold.
func (w *world) planOf(check string, move func(*registry.Registry) (*registry.Registry, []int, error), change command.Change) *diagnose.Plan {
	w.planned++
	found, err := store.Inspect(w.config.State.Path)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &diagnose.Plan{Report: &command.Report{}}
	next, versions, err := move(found.Registry)
	if err != nil {
		p.Report.Checks = []command.Check{failed(check, "refused", err.Error(), "look")}
		p.Report.Seal("plan")
		return p
	}
	p.Current, p.Next = found.Registry, next
	change.StateHash, change.NextStateHash, change.NextGeneration = found.Registry.Hash(), next.Hash(), next.Generation()
	change.ActiveKeyIDHash = next.Active().Binding.KeyIDHash()
	if change.BeforeVersion > 0 {
		change.RemovedVersions = versions
	} else {
		change.RestoredVersions = versions
	}
	p.Report.Change = &change
	p.Report.Checks = []command.Check{passed(check, "allowed")}
	p.Report.Seal("plan")
	return p
}

// from is a review of a plan of r, to one with its outcome besides.
func from(r *registry.Registry) Reviewed { return Reviewed{StateHash: r.Hash()} }

func to(r, next *registry.Registry) Reviewed { return Reviewed{r.Hash(), next.Hash()} }

// retirement is the job that ApplyRetirement runs, with this world's plan.
func (w *world) retirement(before int, reviewed Reviewed) job {
	j := retirement(w.o, before, reviewed)
	j.plan = func(context.Context) *diagnose.Plan {
		return w.planOf("retirement.allowed", func(r *registry.Registry) (*registry.Registry, []int, error) {
			return r.Retire(w.md, rules, before)
		}, command.Change{BeforeVersion: before})
	}
	return j
}

func (w *world) restoration(versions []int, reviewed Reviewed) job {
	j := restoration(w.o, versions, reviewed)
	j.plan = func(context.Context) *diagnose.Plan {
		return w.planOf("restoration.allowed", func(r *registry.Registry) (*registry.Registry, []int, error) {
			return r.Restore(w.md, rules, versions)
		}, command.Change{})
	}
	return j
}

func (w *world) run(j job) (*command.Report, error) {
	return j.run(w.t.Context(), w.o, w.open)
}

// mustRun is a run that ends with a report, each of whose checks is as named:
// "state.lock pass" or "plan.reviewed plan_stale".
func (w *world) mustRun(j job, checks ...string) *command.Report {
	w.t.Helper()
	r, err := w.run(j)
	w.must(err)
	var got []string
	for _, c := range r.Checks {
		how := string(c.Result)
		if c.Result != command.Pass {
			how = c.Reason
			if c.Reason == "" || c.Message == "" || c.NextStep == "" {
				w.t.Errorf("check %+v does not say what, why and what to do", c)
			}
		}
		got = append(got, c.ID+" "+how)
		if strings.Contains(c.Message+c.NextStep, "/") {
			w.t.Errorf("check %s tells a path: %s; %s", c.ID, c.Message, c.NextStep)
		}
	}
	if strings.Join(got, ", ") != strings.Join(checks, ", ") {
		w.t.Fatalf("checks %q, want %q\n%+v", got, checks, r.Checks)
	}
	return r
}
