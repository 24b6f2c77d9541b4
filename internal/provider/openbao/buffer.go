package openbao

import (
	"errors"
	"io"
	"sync"
)

// Buffers of at least minBuffer bytes are made, so that most requests and
// answers fit without growing; those above maxPooled are not kept.
const (
	minBuffer = 4 << 10
	maxPooled = 64 << 10
)

var pool = sync.Pool{New: func() any { return new(Buffer) }}

// Buffer is a pooled piece of memory for the body of a request or an answer. It
// is overwritten when it is released, because bodies hold plaintext (design:
// kms-service, limits). It has one owner at a time.
type Buffer struct {
	// B is the content. Whoever appends beyond the capacity that NewBuffer was
	// asked for leaves a copy behind that nobody overwrites.
	B []byte
}

// NewBuffer returns an empty Buffer with room for size bytes.
func NewBuffer(size int) *Buffer {
	b := pool.Get().(*Buffer)
	if cap(b.B) < size {
		b.B = make([]byte, 0, max(size, minBuffer))
	}
	return b
}

// Release overwrites the buffer and gives it back. B and its parts must not be
// used after it. Releasing nil does nothing.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	clear(b.B[:cap(b.B)])
	if cap(b.B) > maxPooled {
		return
	}
	b.B = b.B[:0]
	pool.Put(b)
}

// grow doubles the room and overwrites what it leaves behind.
func (b *Buffer) grow() {
	old := b.B
	b.B = append(make([]byte, 0, 2*cap(old)), old...)
	clear(old[:cap(old)])
}

var errTooLarge = errors.New("the answer is larger than its limit")

// readAll reads r to its end into a new Buffer, or fails with errTooLarge after
// limit+1 bytes. What a header said about the length plays no part.
func readAll(r io.Reader, limit int64) (*Buffer, error) {
	b := NewBuffer(minBuffer)
	for {
		if len(b.B) == cap(b.B) {
			b.grow()
		}
		room := b.B[len(b.B):min(int64(cap(b.B)), limit+1)]
		n, err := r.Read(room)
		b.B = b.B[:len(b.B)+n]
		switch {
		case int64(len(b.B)) > limit:
			err = errTooLarge
		case err == io.EOF:
			return b, nil
		}
		if err != nil {
			b.Release()
			return nil, err
		}
	}
}

var errBodyClosed = errors.New("the request body is closed")

// requestBody lends a Buffer to net/http, which may still be reading it when
// the round trip has returned (a cancelled request, an early answer). The
// Buffer is released when net/http closes the body, never while it copies.
type requestBody struct {
	mu     sync.Mutex
	buffer *Buffer
	next   int
}

func (r *requestBody) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buffer == nil {
		return 0, errBodyClosed
	}
	if r.next == len(r.buffer.B) {
		return 0, io.EOF
	}
	n := copy(p, r.buffer.B[r.next:])
	r.next += n
	return n, nil
}

func (r *requestBody) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffer.Release()
	r.buffer = nil
	return nil
}
