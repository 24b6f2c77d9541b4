package stack

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestPortsAreNobodyElses: a pool stands for a program. What one has been given no other gets, however many it takes.
func TestPortsAreNobodyElses(t *testing.T) {
	dir := t.TempDir()
	first, second := &portPool{dir: dir}, &portPool{dir: dir}
	owner := map[int]*portPool{}
	for _, p := range []*portPool{first, second, first} {
		// More than a block has.
		got, err := p.free(blockPorts + 1)
		if err != nil || len(got) != blockPorts+1 {
			t.Fatalf("%d ports, %v", len(got), err)
		}
		for _, port := range got {
			if owner[port] != nil || port < firstPort || port >= firstPort+blocks*blockPorts {
				t.Fatalf("port %d is out of range or was given before", port)
			}
			owner[port] = p
		}
	}

	// Two full blocks each and what was begun of others: the rest belongs to a third, and then nothing is left.
	third := &portPool{dir: dir}
	var err error
	for range blocks {
		if err = third.take(); err != nil {
			break
		}
	}
	if want := blocks - len(first.held) - len(second.held); err == nil || len(third.held) != want {
		t.Errorf("the third has %d blocks, want %d and then an error; it is %v", len(third.held), want, err)
	}
	if err := (&portPool{dir: dir}).take(); err == nil || !strings.Contains(err.Error(), "have them all") {
		t.Errorf("a fourth: %v, want that nothing is left", err)
	}
	// What ends lets go.
	for _, f := range third.held {
		_ = f.Close()
	}
	if err := (&portPool{dir: dir}).take(); err != nil {
		t.Errorf("after the third has ended: %v", err)
	}
}

// TestPortsAreGivenBack: no file is left, whoever waited for the lock of a removed one does not get it, and the ports are there for others.
func TestPortsAreGivenBack(t *testing.T) {
	dir := t.TempDir()
	p := &portPool{dir: dir}
	for range blocks {
		if err := p.take(); err != nil {
			t.Fatal(err)
		}
	}
	waiting, err := os.Open(p.held[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if !stillThere(waiting) {
		t.Error("the file of a held block counts as removed")
	}
	if err := p.giveBack(); err != nil {
		t.Fatal(err)
	}
	if stillThere(waiting) {
		t.Error("a removed file counts as a block's")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if got, err := (&portPool{dir: dir}).free(1); err != nil || len(got) != 1 {
		t.Errorf("afterwards another gets %v, %v", got, err)
	}
}

// TestPortsInUseAreLeftOut: somebody listens on a port of the block.
func TestPortsInUseAreLeftOut(t *testing.T) {
	p := &portPool{dir: t.TempDir()}
	if err := p.take(); err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	for l == nil {
		var err error
		if l, err = net.Listen("tcp", loopback(p.left[0])); err != nil {
			p.left = p.left[1:] // somebody is there already
		}
	}
	defer l.Close()
	taken := p.left[0]
	if got, err := p.free(1); err != nil || len(got) != 1 || got[0] == taken {
		t.Errorf("got %v, %v, want another port than %d", got, err, taken)
	}
}
