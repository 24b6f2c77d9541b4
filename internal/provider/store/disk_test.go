package store

import (
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// disk models one directory with what POSIX promises about it, and no more:
// what running processes see, and what is left after the power went.
//
// A file's content is durable once the file was synced. Names are durable once
// the directory was synced; of the changes since, a crash keeps the first few.
type disk struct {
	names   map[string]*inode // what running processes see
	durable map[string]*inode // what the last directory sync made sure of
	pending []change          // since then, in order
}

// inode is one file, whatever names it has.
type inode struct {
	info   fileInfo
	data   []byte // what running processes see; replaced, never changed in place
	synced []byte // what the last sync made sure of
	// lost is set when a sync failed: kernels then forget that the data is still
	// to be written, and a later sync succeeds without it.
	lost bool
}

// change is one atomic change of the names.
type change struct {
	unlink string // goes, when not empty
	link   string // comes, when not empty
	node   *inode
}

func newDisk() *disk {
	return &disk{names: map[string]*inode{}, durable: map[string]*inode{}}
}

// private is what the store expects of a file.
func private() fileInfo { return fileInfo{regular: true, owner: os.Geteuid(), mode: 0o600} }

// place puts a durable file there; nil content stands for no file.
func (d *disk) place(name string, content []byte) {
	if content == nil {
		return
	}
	n := &inode{info: private(), data: content, synced: content}
	d.names[name], d.durable[name] = n, n
}

func (d *disk) apply(c change) {
	c.on(d.names)
	d.pending = append(d.pending, c)
}

func (c change) on(names map[string]*inode) {
	if c.unlink != "" {
		delete(names, c.unlink)
	}
	if c.link != "" {
		names[c.link] = c.node
	}
}

func (d *disk) create(name string) (*inode, error) {
	if _, taken := d.names[name]; taken {
		return nil, unix.EEXIST
	}
	n := &inode{info: private()}
	d.apply(change{link: name, node: n})
	return n, nil
}

func (d *disk) rename(oldName, newName string) error {
	n, ok := d.names[oldName]
	if !ok {
		return unix.ENOENT
	}
	d.apply(change{unlink: oldName, link: newName, node: n})
	return nil
}

func (d *disk) remove(name string) error {
	if _, ok := d.names[name]; !ok {
		return unix.ENOENT
	}
	d.apply(change{unlink: name})
	return nil
}

func (d *disk) sync() {
	d.durable, d.pending = maps.Clone(d.names), nil
}

func (n *inode) sync() {
	if !n.lost {
		n.synced = n.data
	}
}

// crashes returns every disk that may be found after the power went now: each
// number of kept name changes, with the content that was never synced lost,
// kept, torn, or replaced by zeros.
func (d *disk) crashes() []*disk {
	unsynced := []func(n *inode) []byte{
		func(n *inode) []byte { return n.synced },
		func(n *inode) []byte { return n.data },
		func(n *inode) []byte { return n.data[:len(n.data)/2] },
		func(n *inode) []byte { return make([]byte, len(n.data)) },
	}
	if len(d.pending) == 0 && d.settled() {
		return []*disk{d.clone()}
	}
	seen := map[string]bool{}
	var found []*disk
	for kept := range len(d.pending) + 1 {
		names := maps.Clone(d.durable)
		for _, c := range d.pending[:kept] {
			c.on(names)
		}
		for _, content := range unsynced {
			after := newDisk()
			for name, n := range names {
				data := n.synced
				if string(n.data) != string(n.synced) {
					data = content(n)
				}
				if data == nil {
					data = []byte{}
				}
				after.place(name, data)
			}
			if key := after.print(digest); !seen[key] {
				seen[key] = true
				found = append(found, after)
			}
		}
	}
	return found
}

// settled reports whether the content of every file is durable.
func (d *disk) settled() bool {
	for _, n := range d.names {
		if n.synced == nil || string(n.data) != string(n.synced) {
			return false
		}
	}
	return true
}

// clone copies a disk with everything that is not durable yet.
func (d *disk) clone() *disk {
	copies := map[*inode]*inode{}
	node := func(n *inode) *inode {
		if n == nil {
			return nil
		}
		if copies[n] == nil {
			c := *n
			copies[n] = &c
		}
		return copies[n]
	}
	out := newDisk()
	for name, n := range d.names {
		out.names[name] = node(n)
	}
	for name, n := range d.durable {
		out.durable[name] = node(n)
	}
	for _, c := range d.pending {
		out.pending = append(out.pending, change{c.unlink, c.link, node(c.node)})
	}
	return out
}

// key tells two disks apart by everything that can still become of them. The
// content of a temporary file is no part of it: the store never reads one, and
// injected.Open holds it to that.
func (d *disk) key() string {
	future := func(name string, data []byte) string {
		if strings.HasSuffix(name, temporarySuffix) {
			return "leftover"
		}
		return digest(name, data)
	}
	key := d.print(future)
	for _, c := range d.crashes() {
		key += "or " + c.print(future)
	}
	return key
}

var seed = maphash.MakeSeed()

func digest(_ string, data []byte) string {
	return strconv.FormatUint(maphash.Bytes(seed, data), 36)
}

// String shows what processes see.
func (d *disk) String() string {
	return d.print(func(_ string, data []byte) string { return fmt.Sprintf("%q", data) })
}

func (d *disk) print(show func(name string, data []byte) string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		b.WriteString(name + "=" + show(name, d.names[name].data) + "\n")
	}
	return b.String()
}

// content is what a process reads under a name, nil when there is nothing.
func (d *disk) content(name string) []byte {
	if n, ok := d.names[name]; ok {
		return append([]byte{}, n.data...)
	}
	return nil
}
