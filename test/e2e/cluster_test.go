package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/envelope"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// patience bounds every condition that a test waits for. Conditions are met in
// a second or two; the machine may be busy.
const patience = 90 * time.Second

// binary is the provider as `make build` built it.
func binary(t *testing.T) string {
	t.Helper()
	bins, err := stack.Find()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bins.Root, "bin", "bao-kms-provider")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("bin/bao-kms-provider is not built: run make build")
	}
	return path
}

// transit starts Transit with the product's own policy.
func transit(t *testing.T) *stack.Transit {
	t.Helper()
	return stacktest.Transit(t, stack.TransitOptions{Policy: policy.OpenBao(stack.DefaultMount, stack.DefaultKey)})
}

// cluster is one etcd and any number of control-plane nodes.
type cluster struct {
	t       *testing.T
	ca      *stack.CA
	transit *stack.Transit
	etcd    *stack.Etcd
	nodes   []*node
}

// node is a provider with the API server that uses it.
type node struct {
	c        *cluster
	provider *stack.Provider
	api      *stack.APIServer
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{t: t, ca: stacktest.CA(t), transit: transit(t), etcd: stacktest.Etcd(t, stack.EtcdOptions{})}
}

// join adds a node. fields are changes to its configuration.
func (c *cluster) join(fields map[string]any) *node {
	c.t.Helper()
	n := &node{c: c, provider: stacktest.Provider(c.t, binary(c.t), c.transit, stack.ProviderConfig{Fields: fields})}
	file := filepath.Join(n.provider.Files.Dir, "encryption.yaml")
	config := stack.EncryptionConfig{Provider: stack.ProviderName, Socket: n.provider.Files.Socket, Resources: []string{"secrets", "configmaps"}}
	if err := config.Write(file); err != nil {
		c.t.Fatal(err)
	}
	n.api = stacktest.APIServer(c.t, stack.APIServerOptions{Etcd: c.etcd, CA: c.ca, EncryptionConfig: file})
	c.nodes = append(c.nodes, n)
	return n
}

func (n *node) client() kubernetes.Interface { return n.api.Client() }

// writeSecret creates a Secret whose one value is its own name.
func (n *node) writeSecret(name string) {
	n.c.t.Helper()
	_, err := n.client().CoreV1().Secrets("default").Create(n.c.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		StringData: map[string]string{"value": plaintext(name)},
	}, metav1.CreateOptions{})
	if err != nil {
		n.c.t.Fatalf("write Secret %s: %v", name, err)
	}
}

// plaintext is what a Secret holds.
func plaintext(name string) string { return "the plaintext of " + name }

// readSecret reads a Secret past the API server's watch cache and checks it.
func (n *node) readSecret(name string) error {
	s, err := n.client().CoreV1().Secrets("default").Get(n.c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Secret %s: %w", name, err)
	}
	if got := string(s.Data["value"]); got != plaintext(name) {
		return fmt.Errorf("Secret %s came back as %q", name, got)
	}
	return nil
}

func (n *node) mustReadSecret(name string) {
	n.c.t.Helper()
	if err := n.readSecret(name); err != nil {
		n.c.t.Fatal(err)
	}
}

// rewrite stores a Secret again without a change, as a storage migration does.
func (n *node) rewrite(name string) error {
	secrets := n.client().CoreV1().Secrets("default")
	s, err := secrets.Get(n.c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = secrets.Update(n.c.t.Context(), s, metav1.UpdateOptions{})
	return err
}

// raw reads a Secret's envelope from etcd.
func (c *cluster) raw(name string) envelope.Envelope {
	c.t.Helper()
	value, err := c.etcd.Get(c.t.Context(), "/registry/secrets/default/"+name)
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.Contains(string(value), plaintext(name)) {
		c.t.Fatalf("the plaintext of Secret %s is readable in etcd", name)
	}
	e, err := envelope.Parse(value)
	if err != nil {
		c.t.Fatalf("Secret %s in etcd: %v", name, err)
	}
	return e
}

// ready is a provider's answer on /ready.
type ready struct {
	Status              string   `json:"status"`
	Healthz             string   `json:"healthz"`
	RotationState       string   `json:"rotation_state"`
	Reasons             []string `json:"reasons"`
	MetadataErrorClass  string   `json:"metadata_error_class"`
	PersistenceDegraded bool     `json:"persistence_degraded"`
}

func readiness(ctx context.Context, p *stack.Provider) (ready, error) {
	var r ready
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Files.HealthAddress+"/ready", nil)
	if err != nil {
		return r, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// eventually waits until condition returns nil.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Eventually(condition, patience, 50*time.Millisecond).Should(gomega.Succeed(), what)
}

// eventuallyReady waits for a provider to say that it is.
func eventuallyReady(t *testing.T, p *stack.Provider) {
	t.Helper()
	eventually(t, "the provider is ready", func() error {
		r, err := readiness(t.Context(), p)
		if err == nil && r.Status != "ready" {
			err = fmt.Errorf("reasons %q", r.Reasons)
		}
		return err
	})
}

// eventuallyReason waits for a provider to be unready for a reason.
func eventuallyReason(t *testing.T, p *stack.Provider, reason string) ready {
	t.Helper()
	var last ready
	eventually(t, "the provider says "+reason, func() error {
		r, err := readiness(t.Context(), p)
		if err == nil && r.Healthz != reason {
			err = fmt.Errorf("healthz %q, reasons %q", r.Healthz, r.Reasons)
		}
		last = r
		return err
	})
	return last
}

// snapshot is what a test reads from a state file.
type snapshot struct {
	Version int    `json:"transitVersion"`
	KeyID   string `json:"kubernetesKeyId"`
	State   string `json:"state"`
	Count   int    `json:"stableObservations"`
}

type registryFile struct {
	Generation uint64     `json:"generation"`
	Hash       string     `json:"hash"`
	Snapshots  []snapshot `json:"snapshots"`
}

// active is the snapshot that encrypts.
func (r registryFile) active() snapshot {
	for _, s := range r.Snapshots {
		if s.State == "active" {
			return s
		}
	}
	return snapshot{}
}

func (r registryFile) version(v int) snapshot {
	for _, s := range r.Snapshots {
		if s.Version == v {
			return s
		}
	}
	return snapshot{}
}

// registryOf reads a provider's state file.
func registryOf(t *testing.T, p *stack.Provider) registryFile {
	t.Helper()
	content, err := os.ReadFile(p.Files.State)
	if err != nil {
		t.Fatal(err)
	}
	var r registryFile
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// eventuallyActive waits until v is a provider's active version, on disk and in
// what it answers from.
func eventuallyActive(t *testing.T, p *stack.Provider, v int) {
	t.Helper()
	eventually(t, fmt.Sprintf("version %d is active", v), func() error {
		if got := registryOf(t, p).active().Version; got != v {
			return fmt.Errorf("version %d is active", got)
		}
		return nil
	})
	// Durable comes first; published is what calls are answered with.
	eventually(t, fmt.Sprintf("version %d is published", v), func() error {
		return metricIs(t, p, fmt.Sprintf("openbao_kms_key_version %d", v))
	})
	eventuallyReady(t, p)
}

// metricIs looks for one line of a provider's metrics.
func metricIs(t *testing.T, p *stack.Provider, line string) error {
	t.Helper()
	resp, err := http.Get("http://" + p.Files.MetricsAddress + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && !strings.Contains(string(body), line+"\n") {
		err = fmt.Errorf("no line %q", line)
	}
	return err
}
