// Package architecture holds the rules of design/overview about who may import
// what against the module as it is.
package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/baokms/baokms/"

// pkg is what `go list` tells of one package.
type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// list returns the packages that the patterns name, with their dependencies when
// deps is set, as they are built: test files do not count.
func list(t *testing.T, deps bool, patterns ...string) map[string]pkg {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Imports,Standard"}
	if deps {
		args = append(args, "-deps")
	}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	found := map[string]pkg{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found[p.ImportPath] = p
	}
	if len(found) == 0 {
		t.Fatalf("go list found nothing for %q", patterns)
	}
	return found
}

// TestTheProviderLinksNoKubernetesClient is the rule that makes the provider
// independent of the cluster that it protects.
func TestTheProviderLinksNoKubernetesClient(t *testing.T) {
	forbidden := []string{
		"k8s.io/client-go", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiserver",
		"sigs.k8s.io/controller-runtime", module + "internal/controller", module + "test",
	}
	for path := range list(t, true, "./cmd/provider", "./internal/provider/...") {
		for _, f := range forbidden {
			if path == f || strings.HasPrefix(path, strings.TrimSuffix(f, "/")+"/") {
				t.Errorf("the provider links %s", path)
			}
		}
	}
}

// forTests: a package that only tests use has a name that ends in "test".
func forTests(path string) bool { return strings.HasSuffix(path, "test") }

func TestTheProgramsLinkNoTestCode(t *testing.T) {
	for path, p := range list(t, true, "./cmd/provider", "./cmd/manager") {
		if !p.Standard && strings.HasPrefix(path, module) && forTests(path) {
			t.Errorf("a program links %s", path)
		}
	}
}

// TestThePlumbingIsThin: what both command lines are made of brings neither
// Kubernetes into the provider nor OpenBao into the manager.
func TestThePlumbingIsThin(t *testing.T) {
	allowed := []string{module + "internal/cli", module + "internal/provider/command", module + "internal/provider/version"}
	for path := range list(t, true, "./internal/cli") {
		if strings.HasPrefix(path, module) && !slices.Contains(allowed, path) || strings.Contains(path, "k8s.io/") {
			t.Errorf("internal/cli links %s", path)
		}
	}
}

// TestPurePackages: they import the standard library and each other, and of the
// standard library nothing that does I/O or reads a clock.
func TestPurePackages(t *testing.T) {
	pure := []string{module + "internal/provider/identity", module + "internal/provider/registry"}
	impure := []string{"os", "net", "net/http", "io/ioutil", "time", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "sync", "context", "syscall"}
	all := list(t, true, pure...)
	for _, path := range pure {
		for _, imported := range all[path].Imports {
			if slices.Contains(impure, imported) {
				t.Errorf("%s is pure but imports %s", path, imported)
			}
			if !all[imported].Standard && !slices.Contains(pure, imported) {
				t.Errorf("%s is pure but imports %s", path, imported)
			}
		}
	}
}

// TestImportsPointOneWay holds every package of the provider against the layers
// of design/overview: a package may import those of lower layers only.
func TestImportsPointOneWay(t *testing.T) {
	layers := [][]string{
		{"benchmark/load", "command", "fault", "identity", "kmsclient", "process", "securefile", "version", "policy"},
		{"registry"},
		{"config", "openbao", "status", "store", "socket"},
		{"auth", "transit"},
		{"backend", "kms", "observe", "watch"},
		{"benchmark", "diagnose", "serve", "setup"},
		{"operate"},
	}
	layerOf := map[string]int{}
	for i, names := range layers {
		for _, name := range names {
			layerOf[module+"internal/provider/"+name] = i
		}
	}
	for path, p := range list(t, false, "./internal/provider/...") {
		own, known := layerOf[path]
		if forTests(path) {
			continue
		}
		if !known {
			t.Errorf("%s is in no layer: decide where it belongs", path)
			continue
		}
		for _, imported := range p.Imports {
			if layer, ours := layerOf[imported]; ours && layer >= own {
				t.Errorf("%s imports %s, which is not below it", path, imported)
			}
		}
	}
}

// TestTheServiceKnowsNoBackend: kms reaches OpenBao only through interfaces that
// it declares itself.
func TestTheServiceKnowsNoBackend(t *testing.T) {
	const kms = module + "internal/provider/kms"
	for _, imported := range list(t, false, kms)[kms].Imports {
		for _, backend := range []string{"transit", "auth", "openbao", "watch", "store"} {
			if imported == module+"internal/provider/"+backend {
				t.Errorf("kms imports %s", imported)
			}
		}
	}
}

// TestTheAssessmentIsPure: what a plan's status says is made of values. The time
// comes in as one of them, so the package may name its types.
func TestTheAssessmentIsPure(t *testing.T) {
	const assess = module + "internal/controller/assess"
	impure := []string{"os", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "sync", "context", "syscall"}
	all := list(t, true, assess)
	for _, imported := range all[assess].Imports {
		if slices.Contains(impure, imported) {
			t.Errorf("assess is pure but imports %s", imported)
		}
	}
	for path := range all {
		for _, client := range []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"} {
			if strings.HasPrefix(path, client+"/") {
				t.Errorf("assess links %s", path)
			}
		}
	}
}
