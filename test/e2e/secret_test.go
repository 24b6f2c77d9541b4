package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/test/stack"
)

// TestASecretsLife is the product in one test: written encrypted, bound to its
// key, and read back after everything in front of OpenBao has been restarted.
func TestASecretsLife(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.join(nil)

	n.writeSecret("first")
	_, err := n.client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "first"}, Data: map[string]string{"value": "a motto"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	e := c.raw("first")
	active := registryOf(t, n.provider).active()
	if e.Provider != stack.ProviderName || e.KeyID != active.KeyID || active.Version != 1 {
		t.Errorf("etcd names provider %q and key_id %q, the registry has %+v", e.Provider, e.KeyID, active)
	}
	if !strings.HasPrefix(string(e.WrappedSeed), "vault:v1:") {
		t.Error("the seed is not wrapped by version 1 of a Transit key")
	}
	for key, want := range map[string]string{
		"provider.kms.openbao.org":            "openbao-transit",
		"transit-key-version.kms.openbao.org": "1",
		"aad-version.kms.openbao.org":         "v1",
	} {
		if got := string(e.Annotations[key]); got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	if len(e.Annotations) != 7 {
		t.Errorf("%d annotations, want the contract's 7 without a namespace", len(e.Annotations))
	}

	readBack := func(after string) {
		t.Helper()
		if err := n.readSecret("first"); err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
		m, err := n.client().CoreV1().ConfigMaps("default").Get(t.Context(), "first", metav1.GetOptions{})
		if err != nil || m.Data["value"] != "a motto" {
			t.Fatalf("after %s: ConfigMap %v, error %v", after, m.Data, err)
		}
	}
	readBack("writing")
	if err := n.api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	readBack("a restart of the API server")
	if err := n.provider.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	readBack("a restart of both")
	n.provider.Kill()
	if err := n.provider.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	readBack("the provider was killed")
	if err := c.transit.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, n.provider)
	if err := n.api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	readBack("a restart of OpenBao")
	if got := registryOf(t, n.provider); got.Generation != 1 || got.active() != active {
		t.Errorf("the registry changed although the key did not: %+v", got)
	}
}

// TestTheAPIServerTrustsOurStatus asks the API server itself for the health of
// its KMS provider, healthy and not.
func TestTheAPIServerTrustsOurStatus(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.join(nil)
	check := func() (int, string, error) { return n.api.Check(t.Context(), "/healthz/kms-providers") }
	if code, body, err := check(); err != nil || code != http.StatusOK {
		t.Fatalf("healthy: %d %s %v", code, body, err)
	}
	if err := c.transit.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := eventuallyReason(t, n.provider, "metadata_read_failed")
	if r.MetadataErrorClass != "openbao_sealed" {
		t.Errorf("metadata_error_class %q, want openbao_sealed", r.MetadataErrorClass)
	}
	eventually(t, "the API server reports its provider", func() error {
		code, body, err := check()
		if err == nil && code == http.StatusOK {
			err = fmt.Errorf("still healthy: %s", body)
		}
		return err
	})
	if err := c.transit.Unseal(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyReady(t, n.provider)
	eventually(t, "the API server sees it healthy again", func() error {
		code, body, err := check()
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, body)
		}
		return err
	})
	n.writeSecret("after")
	n.mustReadSecret("after")
}

// TestShutdown: SIGTERM ends the provider with 0, removes its socket, and leaves
// its state.
func TestShutdown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.join(nil)
	before := registryOf(t, n.provider)
	if err := n.provider.Stop(); err != nil {
		t.Fatal(err)
	}
	if code, ok := n.provider.ExitCode(); !ok || code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if _, err := os.Lstat(n.provider.Files.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if after := registryOf(t, n.provider); after.Hash != before.Hash {
		t.Error("stopping changed the registry")
	}
	if !strings.Contains(n.provider.Logs(), `"message":"serve.shutdown"`) {
		t.Error("serve.shutdown was not logged")
	}
}
