package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/registry"
)

// fault is what happens to one system call.
type fault int

const (
	failBefore  fault = iota + 1 // an error, and nothing happened
	failAfter                    // an error, and all of it happened
	crashBefore                  // the process ends, and nothing happened
	crashAfter                   // the process ends, and all of it happened
	failHalf                     // of a write: an error, and half of it happened
	shortWrite                   // of a write: no error, and half of it happened
	crashHalf                    // of a write: the process ends, and half of it happened
)

func (f fault) String() string {
	return [...]string{"none", "fail before", "fail after", "crash before", "crash after", "fail half-way", "short write", "crash half-way"}[f]
}

func (f fault) crash() bool { return f == crashBefore || f == crashAfter || f == crashHalf }

// faultsOf are the faults that a kind of call can have. A call without an effect
// has no difference between before and after.
func faultsOf(call string) []fault {
	switch call {
	case "open directory", "open", "stat", "close", "close directory":
		return []fault{failBefore, crashBefore}
	case "write":
		return []fault{failBefore, failHalf, shortWrite, failAfter, crashBefore, crashHalf, crashAfter}
	}
	return []fault{failBefore, failAfter, crashBefore, crashAfter}
}

var (
	errInjected = fmt.Errorf("injected: %w", unix.EIO)
	errDead     = errors.New("the process has ended")
)

// plan numbers the system calls of a process and decides which one fails.
type plan struct {
	trace []string // the calls so far: "rename registry.json.tmp registry.json"
	kinds []string // of the same calls: "rename"
	at    int      // the call that gets the fault, counted from 0
	fault fault    // none when 0
	dead  bool
}

// arm begins a new count.
func (p *plan) arm(at int, f fault) {
	*p = plan{at: at, fault: f, dead: p.dead}
}

// next counts one call and returns its fault.
func (p *plan) next(kind string, args ...string) fault {
	line := kind
	for _, a := range args {
		line += " " + a
	}
	k := len(p.trace)
	p.trace, p.kinds = append(p.trace, line), append(p.kinds, kind)
	if p.fault != 0 && p.at == k {
		return p.fault
	}
	return 0
}

// call makes one call with its fault.
func (p *plan) call(effect func() error, kind string, args ...string) error {
	if p.dead {
		return errDead
	}
	f := p.next(kind, args...)
	p.dead = f.crash()
	switch f {
	case failBefore:
		return errInjected
	case crashBefore:
		return errDead
	}
	err := effect()
	switch {
	case f == crashAfter:
		return errDead
	case f == failAfter && err == nil:
		return errInjected
	}
	return err
}

// injected is a directory on a disk whose calls follow a plan.
type injected struct {
	disk *disk
	plan *plan
}

func (d *injected) ID() dirID { return dirID{1, 1} }

func (d *injected) Open(name string) (file, error) {
	if strings.HasSuffix(name, temporarySuffix) {
		panic("the store reads the temporary file " + name)
	}
	f := &injectedFile{dir: d, name: name}
	err := d.plan.call(func() error {
		n, ok := d.disk.names[name]
		if !ok {
			return unix.ENOENT
		}
		f.node = n
		return nil
	}, "open", name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *injected) Create(name string) (file, error) {
	f := &injectedFile{dir: d, name: name}
	err := d.plan.call(func() (err error) {
		f.node, err = d.disk.create(name)
		return err
	}, "create", name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *injected) Rename(oldName, newName string) error {
	return d.plan.call(func() error { return d.disk.rename(oldName, newName) }, "rename", oldName, newName)
}

func (d *injected) Remove(name string) error {
	return d.plan.call(func() error { return d.disk.remove(name) }, "remove", name)
}

func (d *injected) Sync() error {
	return d.plan.call(func() error { d.disk.sync(); return nil }, "sync directory")
}

func (d *injected) Close() error {
	return d.plan.call(func() error { return nil }, "close directory")
}

type injectedFile struct {
	dir  *injected
	name string
	node *inode
	read int
}

func (f *injectedFile) Stat() (info fileInfo, err error) {
	err = f.dir.plan.call(func() error {
		info = f.node.info
		info.size = int64(len(f.node.data))
		return nil
	}, "stat", f.name)
	return info, err
}

func (f *injectedFile) Read(p []byte) (n int, err error) {
	err = f.dir.plan.call(func() error {
		n = copy(p, f.node.data[f.read:])
		f.read += n
		if n == 0 {
			return io.EOF
		}
		return nil
	}, "read", f.name)
	return n, err
}

func (f *injectedFile) Write(p []byte) (int, error) {
	plan := f.dir.plan
	if plan.dead {
		return 0, errDead
	}
	fault := plan.next("write", f.name)
	plan.dead = fault.crash()
	n := len(p)
	switch fault {
	case failBefore, crashBefore:
		n = 0
	case failHalf, shortWrite, crashHalf:
		n /= 2
	}
	f.node.data = append(slices.Clone(f.node.data), p[:n]...)
	switch {
	case plan.dead:
		return 0, errDead
	case fault == 0 || fault == shortWrite:
		return n, nil
	}
	return n, errInjected
}

func (f *injectedFile) Sync() error {
	err := f.dir.plan.call(func() error { f.node.sync(); return nil }, "sync", f.name)
	if err != nil && f.dir.plan.fault == failBefore {
		f.node.lost = true
	}
	return err
}

func (f *injectedFile) Close() error {
	return f.dir.plan.call(func() error { return nil }, "close", f.name)
}

// node is a machine: a disk, and the process that runs on it.
type node struct {
	disk *disk
	plan *plan
}

const modelName = "registry.json"

// boot starts a process on a disk. Its calls follow the returned node's plan.
func boot(d *disk) *node { return &node{disk: d, plan: &plan{}} }

// store is a Store on the node's disk, without a lock.
func (n *node) store() *Store {
	d := &injected{n.disk, n.plan}
	return &Store{path: "/state/" + modelName, name: modelName, id: d.ID(), open: func(string) (directory, error) {
		if err := n.plan.call(func() error { return nil }, "open directory"); err != nil {
			return nil, &Error{"/state", "the state directory cannot be opened", "", err}
		}
		return d, nil
	}}
}

// start is what a process does at its start.
func (n *node) start() (*Store, *registry.Registry, error) {
	s := n.store()
	r, err := s.Load(fingerprint)
	return s, r, err
}
