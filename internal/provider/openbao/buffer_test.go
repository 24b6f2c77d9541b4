package openbao

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReleaseOverwrites(t *testing.T) {
	for _, size := range []int{10, minBuffer, maxPooled, maxPooled + 1} {
		b := NewBuffer(size)
		b.B = append(b.B, bytes.Repeat([]byte("s"), size)...)
		memory := b.B[:cap(b.B)]
		b.B = b.B[:1] // what lies behind the length is overwritten too
		b.Release()
		if bytes.IndexByte(memory, 's') >= 0 {
			t.Errorf("size %d: content is left after Release", size)
		}
	}
	(*Buffer)(nil).Release()
}

func TestGrowOverwritesWhatItLeaves(t *testing.T) {
	b := &Buffer{B: []byte("secret")}
	old := b.B
	b.grow()
	if string(b.B) != "secret" || cap(b.B) < 12 {
		t.Errorf("grown to %q with room for %d", b.B, cap(b.B))
	}
	if !bytes.Equal(old, make([]byte, 6)) {
		t.Errorf("left behind %q", old)
	}
}

func TestReadAll(t *testing.T) {
	for _, c := range []struct {
		size  int
		limit int64
		ok    bool
	}{
		{0, 0, true}, {1, 0, false}, {0, 10, true}, {9, 10, true}, {10, 10, true}, {11, 10, false},
		{minBuffer, minBuffer, true}, {minBuffer + 1, minBuffer, false}, {3 * minBuffer, 1 << 20, true},
	} {
		content := strings.Repeat("x", c.size)
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(content),
			"bytes": iotest.OneByteReader(strings.NewReader(content)),
			"eof":   iotest.DataErrReader(strings.NewReader(content)),
		} {
			b, err := readAll(r, c.limit)
			if !c.ok {
				if !errors.Is(err, errTooLarge) || b != nil {
					t.Errorf("%s: %d bytes within %d: %v, want errTooLarge", name, c.size, c.limit, err)
				}
				continue
			}
			if err != nil || string(b.B) != content {
				t.Errorf("%s: %d bytes within %d: %v", name, c.size, c.limit, err)
				continue
			}
			b.Release()
		}
	}
	broken := errors.New("broken")
	if _, err := readAll(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 10); !errors.Is(err, broken) {
		t.Errorf("a broken reader: %v", err)
	}
}

func TestRequestBody(t *testing.T) {
	b := post()
	memory := b.B
	body := &requestBody{buffer: b}
	got, err := io.ReadAll(iotest.OneByteReader(body))
	if err != nil || string(got) != canaryBody {
		t.Fatalf("%q, %v", got, err)
	}
	for range 2 {
		if err := body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(memory, make([]byte, len(memory))) {
		t.Errorf("left behind %q", memory)
	}
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, errBodyClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}
