package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

func statusIsLocal(t *testing.T, s *subject) {
	keyID := s.status(t).KeyId
	s.untouched(t, func() {
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 125 {
					r, err := s.kms.Status(t.Context(), &kmsapi.StatusRequest{})
					if err != nil || r.Healthz != "ok" || r.KeyId != keyID {
						t.Errorf("Status answers %v (error %v); want ok with the same key_id", r, err)
						return
					}
				}
			})
		}
		callers.Wait()
	})
}

// someUnknownID is the n-th well-formed key_id of nobody.
func someUnknownID(n int) string { return "obk2." + hash(fmt.Sprintf("unknown %d", n)) }

// count counts the paths that hold a part.
func count(paths []string, part string) (n int) {
	for _, path := range paths {
		if strings.Contains("/"+path, part) {
			n++
		}
	}
	return n
}

// isLookup asserts that requests are one reading of metadata and nothing else: the key and the mount's setting.
func isLookup(t *testing.T, paths []string) {
	t.Helper()
	if len(paths) != 2 || count(paths, pathMetadata) != 1 || count(paths, "/config/keys") != 1 {
		t.Errorf("OpenBao saw %q; want the key's metadata and the mount's config/keys, once each", paths)
	}
}

func unknownKeyID(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{})
	plaintext := plaintextOf(32)
	r := f.encrypt(t, plaintext)
	decrypt := func(n int) error {
		request := decryptRequest(r)
		request.KeyId = someUnknownID(n)
		_, err := f.kms.Decrypt(limited(t), request)
		return err
	}
	isLookup(t, f.requests(t, func() { f.refused(t, decrypt(0), fault.KeyIDUnknown) }))
	// The interval allows no second one; the answer of the first still holds.
	f.untouched(t, func() {
		for n := range 50 {
			f.refused(t, decrypt(n), fault.KeyIDUnknown)
		}
	})
	f.decrypts(t, decryptRequest(r), plaintext)
	if got := f.status(t).KeyId; got != r.KeyId {
		t.Errorf("the lookup changed key_id from %q to %q", r.KeyId, got)
	}
}

func sharedLookup(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{OpenBaoTimeout: 40 * time.Second})
	r := f.encrypt(t, plaintextOf(32))
	decrypt := func(ctx context.Context, n int) error {
		request := decryptRequest(r)
		request.KeyId = someUnknownID(n)
		_, err := f.kms.Decrypt(ctx, request)
		return err
	}
	held := f.Hold(pathMetadata, -1)
	defer held.Release()
	isLookup(t, f.requests(t, func() {
		var patient sync.WaitGroup
		for n := range 20 {
			patient.Go(func() { f.refused(t, decrypt(limited(t), n), fault.KeyIDUnknown) })
		}
		if err := held.Await(limited(t), 1); err != nil {
			t.Fatal(err)
		}
		// One caller gives up: the lookup goes on for the others.
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := decrypt(impatient, 20); grpcstatus.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the caller with a short deadline got %v, want %v", err, codes.DeadlineExceeded)
		}
		if err := held.Await(limited(t), 1); err != nil {
			t.Fatal(err)
		}
		held.Release()
		patient.Wait()
	}))
	f.status(t)
}
