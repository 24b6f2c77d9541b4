package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// load is somebody who writes Secrets through the API server and reads them, all
// the time. Every value is checked, and every failure fails the test.
type load struct {
	f       *fleet
	end     context.CancelFunc
	running sync.WaitGroup

	// mu is held during one write or read, and while the load has to wait.
	mu             sync.Mutex
	written, reads int
}

// startLoad starts the load: fifty turns in a second, of which one in twenty
// writes.
func (f *fleet) startLoad() *load {
	ctx, end := context.WithCancel(f.t.Context())
	l := &load{f: f, end: end}
	l.running.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for turn := 0; ; turn++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.one(turn%20 == 0)
			}
		}
	})
	f.t.Cleanup(l.stop)
	return l
}

// one writes a new Secret, or reads one of those that are there.
func (l *load) one(writes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	switch {
	case writes:
		if err = l.write(loadName(l.written)); err == nil {
			l.written++
		}
	case l.written > 0:
		l.reads++
		err = l.f.api.readSecret(loadName(rand.IntN(l.written)))
	}
	if err != nil && l.f.t.Context().Err() == nil {
		l.f.t.Errorf("while everything goes on: %v", err)
	}
}

func (l *load) write(name string) error {
	_, err := l.f.api.client().CoreV1().Secrets("default").Create(l.f.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"value": plaintext(name)},
	}, metav1.CreateOptions{})
	return err
}

func loadName(i int) string { return fmt.Sprintf("load-%d", i) }

// waits lets the load wait while something is done.
func (l *load) waits(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

// stop ends the load.
func (l *load) stop() {
	l.end()
	l.running.Wait()
}

// so tells how much was written and read so far.
func (l *load) so() (written, reads int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written, l.reads
}

// stopAndReadAll ends the load and reads all that it wrote once more.
func (l *load) stopAndReadAll() {
	l.f.t.Helper()
	l.stop()
	for i := range l.written {
		l.f.api.mustReadSecret(loadName(i))
	}
	l.f.t.Logf("%d Secrets written and %d reads meanwhile, none failed; all read once more", l.written, l.reads)
}
