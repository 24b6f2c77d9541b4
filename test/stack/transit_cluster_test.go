package stack_test

import (
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestTransitClusterLosesItsLeader: each server answers for the cluster, and what the old leader wrote is there under the new one.
func TestTransitClusterLosesItsLeader(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	c := stacktest.TransitCluster(t, stack.TransitOptions{})
	t.Logf("started and set up in %v", time.Since(begin).Round(time.Millisecond))
	first, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, l := login(t, first)
	var ciphertext string
	for i, node := range c.Nodes() {
		if ciphertext, err = encrypt(t, node.Root().With(l.Token), node, "seed", "context"); err != nil {
			t.Fatalf("encrypt through node %d: %v", i+1, err)
		}
	}
	if n, err := c.Nodes()[2].Requests("/encrypt/" + first.Key()); err != nil || n != 3 {
		t.Errorf("the cluster's audit log has %d encrypts, %v, want 3", n, err)
	}

	begin = time.Now()
	first.Kill()
	second, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a new leader after %v", time.Since(begin).Round(time.Millisecond))
	if second == first {
		t.Fatal("the leader is the server that was killed")
	}
	if n, err := c.Elections(); err != nil || n < 2 {
		t.Errorf("%d elections, %v, want the first and one more at least", n, err)
	}
	if err := c.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes() {
		if node == first {
			continue
		}
		if plain, err := decrypt(t, node.Root().With(l.Token), node, ciphertext, "context"); err != nil || plain != "seed" {
			t.Errorf("decrypt under the new leader: %q, %v", plain, err)
		}
	}

	if err := first.StartSealed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Unseal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if plain, err := decrypt(t, first.Root().With(l.Token), first, ciphertext, "context"); err != nil || plain != "seed" {
		t.Errorf("decrypt through the server that came back: %q, %v", plain, err)
	}
	if now, err := c.Leader(t.Context()); err != nil || now != second {
		t.Errorf("the server that came back leads, %v", err)
	}
}

// TestTransitWithAnotherCA: the same server and data behind another certificate.
func TestTransitWithAnotherCA(t *testing.T) {
	t.Parallel()
	s := stacktest.Transit(t, stack.TransitOptions{})
	old := s.CAFile()
	c, _ := login(t, s)
	ciphertext, err := encrypt(t, c, s, "seed", "context")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RestartWithCA(t.Context(), stacktest.CA(t)); err != nil {
		t.Fatal(err)
	}
	if s.CAFile() == old {
		t.Error("CAFile names the old CA")
	}
	if _, err := encrypt(t, c, s, "seed", "context"); err == nil || status(err) != 0 {
		t.Errorf("a client that trusts the old CA: %v, want no answer at all", err)
	}
	again, _ := login(t, s)
	if plain, err := decrypt(t, again, s, ciphertext, "context"); err != nil || plain != "seed" {
		t.Errorf("decrypt after the change: %q, %v", plain, err)
	}
}
