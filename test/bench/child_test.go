package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/baokms/baokms/internal/provider/kmsclient"
)

var example = canned{
	KeyID:       "a key_id",
	Plaintext:   []byte("thirty-two bytes of a plain text"),
	Ciphertext:  []byte("vault:v1:AAAA"),
	Annotations: map[string][]byte{"version.example.test": []byte("v1")},
}

// emptyChild is a child that serves the empty server, and a client of it.
func emptyChild(t *testing.T, ctx context.Context, env ...string) (*child, kmsClient) {
	t.Helper()
	c, err := startChild(ctx, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	path := filepath.Join(temporary(t), "kms.sock")
	if err := c.order(order{Do: serveEmpty, Socket: path, Canned: example}); err != nil {
		t.Fatal(err)
	}
	k, err := kmsclient.New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return c, kmsClient{k}
}

func TestEmptyServerAnswersAllMethods(t *testing.T) {
	c, k := emptyChild(t, t.Context())
	another := example
	another.Plaintext = []byte("not what was encrypted")
	for _, call := range []struct {
		name string
		do   func(context.Context) error
		want string
	}{
		{"Status", k.status(example.KeyID), ""},
		{"Encrypt", k.encrypt(example.Plaintext, example.KeyID), ""},
		{"Decrypt", k.decrypt(example), ""},
		{"both", alternating(k.encrypt(example.Plaintext, example.KeyID), k.decrypt(example)), ""},
		// The lanes notice a wrong answer.
		{"Status of another key", k.status("another"), "Status does not answer with a healthy provider's key_id: healthz is ok"},
		{"Encrypt under another key", k.encrypt(example.Plaintext, "another"), "Encrypt answers without a ciphertext or with another key_id"},
		{"Decrypt to something else", k.decrypt(another), "Decrypt answers with another plaintext"},
	} {
		got := ""
		if err := call.do(t.Context()); err != nil {
			got = err.Error()
		}
		if got != call.want {
			t.Errorf("%s: error %q, want %q", call.name, got, call.want)
		}
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := k.status(example.KeyID)(t.Context()); err == nil {
		t.Error("the server answers after its end")
	}
	if err := c.Stop(); err != nil {
		t.Errorf("stopping it again: %v", err)
	}
	if err := c.order(order{Do: startCPU}); err == nil {
		t.Error("a child that has ended takes an order")
	}
}

func TestChildEndsWithTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := emptyChild(t, ctx)
	cancel()
	if err := c.Stop(); err != nil {
		t.Errorf("a child that was interrupted: %v", err)
	}
	if state := c.cmd.ProcessState; state == nil || !state.Success() {
		t.Errorf("the child ended with %v, want an orderly end", state)
	}
}

func TestChildRefusesOrders(t *testing.T) {
	c, err := startChild(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	nowhere := filepath.Join(t.TempDir(), "missing", "file")
	for _, refused := range []struct {
		order order
		want  string
	}{
		{order{Do: "dance"}, "dance: unknown order"},
		{order{Do: stopCPU}, "stop-cpu: no profile is being taken"},
		{order{Do: startCPU, File: nowhere}, "no such file or directory"},
		{order{Do: writeAllocations, File: nowhere}, "no such file or directory"},
		{order{Do: serveEmpty, Socket: nowhere}, "serve-empty: listen unix"},
		{order{Do: serveProvider, Config: nowhere}, "serve-provider: "},
	} {
		if err := c.order(refused.order); err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: error %v, want %q", refused.order.Do, err, refused.want)
		}
	}
}

func TestChildWritesProfiles(t *testing.T) {
	c, k := emptyChild(t, t.Context(), exactAllocations)
	dir := t.TempDir()
	cpu, allocs := filepath.Join(dir, "cpu"), filepath.Join(dir, "allocs")
	if err := c.order(order{Do: startCPU, File: cpu}); err != nil {
		t.Fatal(err)
	}
	if err := k.status(example.KeyID)(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range []order{{Do: stopCPU}, {Do: writeAllocations, File: allocs}} {
		if err := c.order(o); err != nil {
			t.Fatal(err)
		}
	}
	for file, sampleType := range map[string]string{cpu: "cpu", allocs: "alloc_objects"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := profile.ParseData(raw)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, have := range p.SampleType {
			found = found || have.Type == sampleType
		}
		if !found {
			t.Errorf("the profile has no samples of type %s", sampleType)
		}
		if sampleType == "alloc_objects" && p.Period != 1 {
			t.Errorf("one allocation in %d bytes is recorded, want every one", p.Period)
		}
	}
}
