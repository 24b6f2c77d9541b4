package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// inputTimeout is how long standard input may take to come to its end.
const inputTimeout = 30 * time.Second

// errNotRegular is a path with something else than a file, which could keep its
// reader waiting for ever.
var errNotRegular = errors.New("is not a regular file")

// inputError is a standard input that did not come to its end, in words for a
// report.
type inputError string

func (e inputError) Error() string { return string(e) }

// readBounded reads a byte more than the limit at most, of a regular file or of
// standard input. It never waits for what does not come.
func readBounded(ctx context.Context, path string) ([]byte, error) {
	if path == fromStandardInput {
		return readInput(ctx, os.Stdin, inputTimeout)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ENXIO) { // a socket
		return nil, errNotRegular
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	}
	return io.ReadAll(io.LimitReader(f, encryptionLimit+1))
}

// readInput reads to the end, for so long at most, and not beyond the end of ctx.
// A reader that stays silent keeps its goroutine; the command ends anyway.
func readInput(ctx context.Context, in io.Reader, wait time.Duration) ([]byte, error) {
	type input struct {
		data []byte
		err  error
	}
	came := make(chan input, 1)
	go func() { // ends with the input, or with the process
		data, err := io.ReadAll(io.LimitReader(in, encryptionLimit+1))
		came <- input{data, err}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case got := <-came:
		return got.data, got.err
	case <-timer.C:
		return nil, inputError(fmt.Sprintf("nothing came on standard input within %s, or not to its end", span(wait)))
	case <-ctx.Done():
		return nil, inputError("the command was interrupted while it waited for standard input")
	}
}
