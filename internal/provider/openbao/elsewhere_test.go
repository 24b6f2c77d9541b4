package openbao

import (
	"net/http"
	"sync"
	"testing"
)

// TestAnotherServerIsFound: behind a load balancer a connection leads to one
// server for as long as it is kept. One that says that it can serve nobody must
// be left; one that has an answer, even an unwelcome one, is kept.
func TestAnotherServerIsFound(t *testing.T) {
	for status, leaves := range map[int]bool{503: true, 500: true, 502: true, 307: true, 429: false, 404: false, 400: false} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			// The first connection leads to a server with this status, all others to a
			// good one.
			var mu sync.Mutex
			first := ""
			conn := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if first == "" {
					first = r.RemoteAddr
				}
				if r.RemoteAddr == first {
					w.WriteHeader(status)
					return
				}
				_, _ = w.Write([]byte("{}"))
			}))
			if _, err := call(t, conn); err == nil {
				t.Fatalf("status %d is a success", status)
			}
			if _, err := call(t, conn); (err == nil) != leaves {
				t.Errorf("the second call: %v, want it on another connection: %v", err, leaves)
			}
		})
	}
}
