package stack_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// gone fails the test when a process is still there.
func gone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}

func TestEtcdKeepsRawValues(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	e := stacktest.Etcd(t, stack.EtcdOptions{})
	t.Logf("started in %v", time.Since(begin).Round(time.Millisecond))
	ctx := t.Context()
	if _, err := e.Get(ctx, "/a/1"); !errors.Is(err, stack.ErrNoKey) {
		t.Errorf("a missing key: %v", err)
	}
	value := []byte{0, 1, 0xff, '\n'}
	for _, key := range []string{"/a/1", "/a/2", "/b/1"} {
		if err := e.Put(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	endpoint, pid := e.Endpoint(), e.Pid()
	begin = time.Now()
	if err := e.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted in %v", time.Since(begin).Round(time.Millisecond))
	if e.Endpoint() != endpoint || e.Pid() == pid {
		t.Errorf("after the restart: %s as process %d, before %s as %d", e.Endpoint(), e.Pid(), endpoint, pid)
	}
	if got, err := e.Get(ctx, "/a/1"); err != nil || !slices.Equal(got, value) {
		t.Errorf("Get = %v, %v, want %v", got, err, value)
	}
	if keys, err := e.Keys(ctx, "/a/"); err != nil || !slices.Equal(keys, []string{"/a/1", "/a/2"}) {
		t.Errorf("Keys = %v, %v", keys, err)
	}
	if _, err := e.Keys(ctx, ""); err == nil {
		t.Error("an empty prefix was accepted")
	}
	last := e.Pid()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	gone(t, pid, last)
}

// TestTwoAPIServersOnOneEtcd creates a Secret at one and reads it at the other and in etcd, over a restart.
func TestTwoAPIServersOnOneEtcd(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ca, e := stacktest.CA(t), stacktest.Etcd(t, stack.EtcdOptions{})
	begin := time.Now()
	first := stacktest.APIServer(t, stack.APIServerOptions{Etcd: e, CA: ca})
	t.Logf("the first started in %v", time.Since(begin).Round(time.Millisecond))
	begin = time.Now()
	second := stacktest.APIServer(t, stack.APIServerOptions{Etcd: e, CA: ca})
	t.Logf("the second started in %v", time.Since(begin).Round(time.Millisecond))

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Data: map[string][]byte{"k": []byte("canary-value")}}
	if _, err := first.Client().CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	raw, err := e.Get(ctx, "/registry/secrets/default/plain")
	if err != nil || !strings.Contains(string(raw), "canary-value") {
		t.Errorf("in etcd without encryption: %q, %v", raw, err)
	}
	url := second.URL()
	begin = time.Now()
	if err := second.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("the second restarted in %v", time.Since(begin).Round(time.Millisecond))
	if second.URL() != url {
		t.Errorf("after the restart it is at %s, before at %s", second.URL(), url)
	}
	got, err := second.Client().CoreV1().Secrets("default").Get(ctx, "plain", metav1.GetOptions{})
	if err != nil || string(got.Data["k"]) != "canary-value" {
		t.Errorf("Get = %v, %v", got.Data, err)
	}
	if code, body, err := first.Check(ctx, "/livez/ping"); err != nil || code != 200 || body != "ok" {
		t.Errorf("Check = %d %q, %v", code, body, err)
	}
	if code, _, err := first.Check(ctx, "/livez/no-such-check"); err != nil || code != 404 {
		t.Errorf("Check of what is not there = %d, %v", code, err)
	}
	pids := []int{first.Pid(), second.Pid()}
	if err := errors.Join(first.Stop(), second.Stop()); err != nil {
		t.Fatal(err)
	}
	gone(t, pids...)
}

// TestAPIServerWithItsProviderDown shows that the encryption configuration reaches the server: it runs, is not ready, and says why.
func TestAPIServerWithItsProviderDown(t *testing.T) {
	t.Parallel()
	dir := stacktest.Dir(t)
	file := filepath.Join(dir, "encryption.yaml")
	config := stack.EncryptionConfig{Provider: "nobody", Socket: filepath.Join(dir, "kms.sock"), Identity: true}
	if err := config.Write(file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the encryption configuration has mode %v, %v", info.Mode(), err)
	}
	a := stacktest.APIServer(t, stack.APIServerOptions{EncryptionConfig: file, ReadyPath: "/livez/ping"})
	code, body, err := a.Check(t.Context(), "/healthz/kms-providers")
	if err != nil || code != 500 {
		t.Errorf("its KMS check answers %d %q, %v, want 500", code, body, err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Data: map[string][]byte{"k": []byte("v")}}
	if _, err := a.Client().CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err == nil {
		t.Error("a Secret was written without its provider")
	}
}

func TestStartsThatCannotWork(t *testing.T) {
	t.Parallel()
	dir := stacktest.Dir(t)
	notExecutable := filepath.Join(dir, "file")
	if err := os.WriteFile(notExecutable, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no directory", second(stack.StartEtcd(t.Context(), stack.EtcdOptions{})), "Dir is empty"},
		{"no directory for Transit", second(stack.StartTransit(t.Context(), stack.TransitOptions{})), "Dir is empty"},
		{"no etcd", second(stack.StartAPIServer(t.Context(), stack.APIServerOptions{Dir: dir})), "Etcd or Dir is missing"},
		{"no binary", second(stack.StartEtcd(t.Context(), stack.EtcdOptions{Dir: dir, Binary: filepath.Join(dir, "none")})), "run make servers"},
		{"no executable", second(stack.StartEtcd(t.Context(), stack.EtcdOptions{Dir: dir, Binary: notExecutable})), "not an executable"},
		{"no provider", second(stack.StartProvider(t.Context(), stack.ProviderOptions{})), "Binary or Files is missing"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
