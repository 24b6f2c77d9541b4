package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/diagnose"
	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/internal/provider/version"
	"github.com/baokms/baokms/test/conformance/interpose"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

const (
	// patience bounds every condition that a test waits for; the machine may be busy.
	patience = 60 * time.Second
	// Where the key is. Both occur nowhere else, so that a report that holds one of them is found.
	mount = "doctor-mount-4bd1f07a/inner"
	key   = "doctor-key-90c2e6d5"
)

// world is a Transit and one node: a provider's configuration, its files and, once served, the provider.
type world struct {
	transit *stack.Transit
	files   stack.ProviderFiles
	// fields are those of the configuration that are not the stack's own.
	fields map[string]any
	// provider is nil until serve.
	provider *stack.Provider
	// proxy stands between the node and its Transit and passes on what it is not told otherwise. Nil for a node that is direct or has an
	// openbao.address or openbao.caCertFile of its own.
	proxy *interpose.Proxy
}

// worldOptions say how a world is made. The zero value is what a new node has before its first start, with nothing wrong.
type worldOptions struct {
	transit stack.TransitOptions
	// fields and claims change the configuration and the JWT as stack.ProviderConfig says.
	fields, claims map[string]any
	// direct leaves out the proxy between the node and its Transit.
	direct bool
}

// newWorld starts a Transit with a key at version 1 and the product's own policy, and writes the files of a node.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	o.transit.Mount, o.transit.Key = mount, key
	if o.transit.Policy == "" {
		o.transit.Policy = policy.OpenBao(mount, key)
	}
	return newNode(t, stacktest.Transit(t, o.transit), o)
}

// newNode writes the files of a further node of the same Transit, in a directory of its own.
func newNode(t *testing.T, transit *stack.Transit, o worldOptions) *world {
	t.Helper()
	files, err := stack.WriteProviderConfig(stacktest.Dir(t), transit, stack.ProviderConfig{Fields: o.fields, Claims: o.claims})
	must(t, err)
	w := &world{transit: transit, files: files, fields: o.fields}
	if !o.direct && o.fields["openbao.address"] == nil && o.fields["openbao.caCertFile"] == nil {
		w.between(t, year, year)
	}
	return w
}

// configure writes the configuration again with further fields; nil removes one.
func (w *world) configure(t *testing.T, fields map[string]any) {
	t.Helper()
	all := maps.Clone(w.fields)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, fields)
	w.fields = all
	must(t, w.files.WriteConfig(w.transit, all))
}

// serve starts the built provider on the node's files and waits until it is ready. It ends with the test.
func (w *world) serve(t *testing.T) {
	t.Helper()
	bins, err := stack.Find()
	if bins.Root == "" {
		t.Fatal(err)
	}
	w.provider, err = stack.StartProvider(t.Context(), stack.ProviderOptions{Binary: filepath.Join(bins.Root, "bin", "bao-kms-provider"), Files: w.files})
	must(t, err)
	provider := w.provider
	t.Cleanup(func() {
		if err := provider.Stop(); err != nil {
			t.Errorf("stopping the provider: %v", err)
		}
		if t.Failed() {
			t.Logf("the provider's log:\n%s", provider.Logs())
		}
	})
	await(t, "the provider is ready", func() error {
		return w.ready(t.Context())
	})
}

// stop stops the provider.
func (w *world) stop(t *testing.T) {
	t.Helper()
	must(t, w.provider.Stop())
	w.provider = nil
}

func (w *world) ready(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.files.HealthAddress+"/ready", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/ready answers %d", resp.StatusCode)
	}
	return nil
}

// option changes what is examined.
type option func(*diagnose.Options)

// withEncryptionConfig gives --encryption-config.
func withEncryptionConfig(path string) option {
	return func(o *diagnose.Options) { o.EncryptionConfig = path }
}

// options are what the commands of this node get.
func (w *world) options(opts ...option) diagnose.Options {
	o := diagnose.Options{ConfigPath: w.files.Config, Getenv: func(string) string { return "" }, Build: version.Info{Version: "v0.0.0-test"}}
	for _, each := range opts {
		each(&o)
	}
	return o
}

// examine is doctor.
func examine(t *testing.T, w *world, opts ...option) *command.Report {
	t.Helper()
	return examineWith(t, w, diagnose.Doctor, opts...)
}

// examineWith runs a command that only looks, and holds its report and the node's files against what holds for every such command.
func examineWith(t *testing.T, w *world, look func(context.Context, diagnose.Options) *command.Report, opts ...option) *command.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	before := tree(t, w.files.Dir)
	r := look(ctx, w.options(opts...))
	if after := tree(t, w.files.Dir); w.provider == nil && !maps.Equal(before, after) {
		t.Errorf("the command changed the node's files:\nbefore %v\nafter  %v", before, after)
	}
	holdsNoSecret(t, w, r)
	wellFormed(t, r)
	return r
}

// tree is every file below dir: its kind and mode, and what a regular file holds. Logs grow by themselves.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) == ".log" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			found[path] += " " + string(content)
			return err
		}
		return nil
	}))
	return found
}

// await polls a condition until it is nil.
func await(t *testing.T, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s: %v", patience, what, err)
		case <-ticker.C:
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
