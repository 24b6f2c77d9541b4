package openbao

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// noise is what a busy machine may add to a deadline.
const noise = 2 * time.Second

// calm fails the test if it leaves goroutines or sockets behind, its own peer's
// included. It must be called before anything is started.
func calm(t *testing.T) {
	t.Helper()
	goroutines, sockets := runtime.NumGoroutine(), countSockets(t)
	t.Cleanup(func() {
		t.Helper()
		// What has been closed needs a moment to be gone.
		deadline := time.Now().Add(10 * time.Second)
		for runtime.NumGoroutine() > goroutines || countSockets(t) > sockets {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Errorf("%d goroutines and %d sockets, %d and %d before:\n%s", runtime.NumGoroutine(), countSockets(t),
					goroutines, sockets, stacks[:runtime.Stack(stacks, true)])
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// countSockets counts the sockets of this process.
func countSockets(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		// A descriptor that is gone by now is none.
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// eventually polls a condition of another goroutine.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// timed makes one call and checks that it ended within the given time.
func timed(t *testing.T, ctx context.Context, c *Conn, op Operation, body *Buffer, within time.Duration) (string, error) {
	t.Helper()
	start := time.Now()
	answer, err := c.Call(ctx, endpoint(t, c, op), NewSecret(canaryToken), body)
	if took := time.Since(start); took > within+noise {
		t.Errorf("the call took %v, want at most %v", took, within)
	}
	if err != nil {
		return "", err
	}
	defer answer.Release()
	return string(answer.B), nil
}
