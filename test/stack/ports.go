package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports below the range from which the kernel takes the ports of outgoing connections: a server that is down for a while then finds its
// port still free. They are cut into blocks, and each program that runs servers has blocks of its own, so that test packages that run at
// the same time never take each other's ports, not even those of servers that are down for a while.
const (
	firstPort  = 10000
	blockPorts = 500
	blocks     = 44
	// startTries is how often a start is tried when somebody else took the port between choosing and listening.
	startTries = 4
)

// ownPorts are this program's.
var ownPorts = portPool{dir: os.TempDir()}

// portPool hands out each port once. It owns a block while it holds the lock of the block's file; the kernel lets go of that when the
// program ends, however it ends.
type portPool struct {
	dir string

	// mu guards what follows: what is left of the newest block, in the order in which it is handed out, and the blocks' open files.
	mu   sync.Mutex
	left []int
	held []*os.File
}

// withPorts calls start with free loopback ports, again with others when start fails because one was taken meanwhile.
func withPorts(n int, start func(ports []int) error) error {
	var err error
	for range startTries {
		var chosen []int
		if chosen, err = ownPorts.free(n); err != nil {
			return err
		}
		if err = start(chosen); err == nil || !portTaken(err) {
			return err
		}
	}
	return err
}

// free finds n ports on which nobody listens and that this program has not been given before.
func (p *portPool) free(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []int
	for len(found) < n {
		if len(p.left) == 0 {
			if err := p.take(); err != nil {
				return nil, err
			}
		}
		port := p.left[0]
		p.left = p.left[1:]
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			_ = l.Close()
			found = append(found, port)
		}
	}
	return found, nil
}

// take makes a block this program's. p.mu is held.
func (p *portPool) take() error {
	for _, i := range rand.Perm(blocks) {
		// The user's id is in the name: one user's file is no other's to open.
		name := filepath.Join(p.dir, fmt.Sprintf("baokms-test-ports-%d-%d", os.Getuid(), i))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("looking for free ports: %w", err)
		}
		// A file that its owner has removed between the two calls is nobody's lock any more.
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !stillThere(f) {
			_ = f.Close()
			continue
		}
		p.held = append(p.held, f)
		for _, k := range rand.Perm(blockPorts) {
			p.left = append(p.left, firstPort+i*blockPorts+k)
		}
		return nil
	}
	return errors.New("looking for free ports: other programs that run the tests' servers have them all")
}

// stillThere reports whether the file's name is still its own.
func stillThere(f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(open, named)
}

// GiveBackPorts gives up this program's ports when all of its servers have ended, and leaves no file behind. A program that does not call
// it leaves empty files in the temporary directory, which the next one uses again.
func GiveBackPorts() error { return ownPorts.giveBack() }

func (p *portPool) giveBack() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, f := range p.held {
		// First the name, then the lock: who has opened the file meanwhile finds that it is not there any more.
		errs = append(errs, os.Remove(f.Name()), f.Close())
	}
	p.held, p.left = nil, nil
	return errors.Join(errs...)
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
