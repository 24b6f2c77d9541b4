package setup

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/test/envelope"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestClusterThatEncryptsAlready follows what the steps say of an API server that has an EncryptionConfiguration: this provider is added
// to it, as the last and then as the first, and what is there stays until everything has been rewritten.
func TestClusterThatEncryptsAlready(t *testing.T) {
	t.Parallel()
	n := setUp(t, config.MethodJWT)
	n.ready(t)
	path := n.moved("/etc/kubernetes/openbao-kms/encryption-config.yaml")
	const older = "      - aescbc: {keys: [{name: older, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}\n"
	const plain = "      - identity: {}\n"
	head, own := n.kms(t)
	write := func(providers ...string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(head+strings.Join(providers, "")), 0o640))
	}
	write(older, plain)
	etcd := stacktest.Etcd(t, stack.EtcdOptions{})
	api := stacktest.APIServer(t, stack.APIServerOptions{Etcd: etcd, EncryptionConfig: path})
	secrets := api.Client().CoreV1().Secrets("default")
	create := func(name, prefix string) {
		t.Helper()
		_, err := secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"word": "hello " + name},
		}, metav1.CreateOptions{})
		must(t, err)
		raw, err := etcd.Get(t.Context(), "/registry/secrets/default/"+name)
		must(t, err)
		if !strings.HasPrefix(string(raw), prefix) {
			t.Errorf("%s begins with %.40q in etcd, want %s", name, raw, prefix)
		}
	}
	const oldPrefix, newPrefix = "k8s:enc:aescbc:v1:older:", "k8s:enc:kms:v2:openbao-kms-workload-a:"
	create("before", oldPrefix)

	write(older, plain, own)
	must(t, api.Restart(t.Context()))
	create("between", oldPrefix)

	write(own, older, plain)
	n.doctor(t, true, map[string]command.Result{"encryptionconfig.identity": command.Warn})
	must(t, api.Restart(t.Context()))
	create("after", newPrefix)

	for _, name := range []string{"before", "between", "after"} {
		s, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if got := string(s.Data["word"]); got != "hello "+name {
			t.Errorf("%s came back as %q", name, got)
		}
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		must(t, err)
	}

	// Everything has been rewritten: the API server is ready without the others.
	write(own)
	n.doctor(t, true, nil)
	must(t, api.Restart(t.Context()))
	for _, name := range []string{"before", "between", "after"} {
		raw, err := etcd.Get(t.Context(), "/registry/secrets/default/"+name)
		must(t, err)
		if _, err := envelope.Parse(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// kms is what init's EncryptionConfiguration has before its providers, and the entry of this one.
func (n *node) kms(t *testing.T) (head, entry string) {
	t.Helper()
	raw, err := os.ReadFile(n.dir + "/encryption-config.yaml")
	must(t, err)
	const providers, identity = "    providers:\n", "      - identity: {}\n"
	head, entry, found := strings.Cut(string(raw), providers)
	entry, last := strings.CutSuffix(entry, identity)
	if !found || !last {
		t.Fatalf("init wrote another list of providers:\n%s", raw)
	}
	return head + providers, entry
}
