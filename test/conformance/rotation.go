package conformance

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// awaitKeyID waits until Status names another key than before.
func (s *subject) awaitKeyID(t *testing.T, before string) string {
	t.Helper()
	var keyID string
	eventually(t, "a rotated key is promoted", func() bool {
		r, err := s.kms.Status(limited(t), &kmsapi.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		keyID = r.KeyId
		return r.Healthz == "ok" && keyID != before
	})
	return keyID
}

func (s *subject) rotate(t *testing.T) {
	t.Helper()
	if err := s.Rotate(limited(t)); err != nil {
		t.Fatal(err)
	}
}

// peersKey has one node promote first: the other must read what it writes, and must not use its key by itself.
func peersKey(t *testing.T, s *subject) {
	quiet := s.freshSubject(t, Settings{})
	own := quiet.encrypt(t, plaintextOf(32))
	quick := newSubject(t, quiet.Peer(t, Settings{Quick: true}))
	if got := quick.status(t).KeyId; got != own.KeyId {
		t.Fatalf("two nodes with one key derive key_id %q and %q", own.KeyId, got)
	}
	quiet.rotate(t)
	quick.awaitKeyID(t, own.KeyId)
	plaintext := plaintextOf(48)
	peers := quick.encrypt(t, plaintext)

	// Not known yet: found by a lookup, and then without one.
	quiet.decrypts(t, decryptRequest(peers), plaintext)
	quiet.decrypts(t, decryptRequest(peers), plaintext)
	if got := quiet.status(t).KeyId; got != own.KeyId {
		t.Errorf("a lookup promoted the peer's key: key_id %q, want %q", got, own.KeyId)
	}
	// The version is sent explicitly: the newest one is not taken by itself.
	again := quiet.encrypt(t, plaintext)
	if again.KeyId != own.KeyId || !bytes.HasPrefix(again.Ciphertext, []byte("vault:v1:")) {
		t.Errorf("Encrypt uses key_id %q and %.9q; want the active key and version 1", again.KeyId, again.Ciphertext)
	}
	quick.decrypts(t, decryptRequest(again), plaintext)
	crossed(t, quiet.besideProbes(), own, peers)
}

// crossed mixes two generations of one key: none of it decrypts.
func crossed(t *testing.T, s *subject, old, newer *kmsapi.EncryptResponse) {
	relabelled := bytes.Replace(old.Ciphertext, []byte("vault:v1:"), []byte("vault:v2:"), 1)
	for _, c := range []struct {
		name   string
		change func(*kmsapi.DecryptRequest)
		want   fault.Cause
		sent   bool
	}{
		{"the newer key_id", func(r *kmsapi.DecryptRequest) { r.KeyId = newer.KeyId }, fault.AnnotationsMismatch, false},
		{"the newer annotations", func(r *kmsapi.DecryptRequest) { r.Annotations = newer.Annotations }, fault.AnnotationsMismatch, false},
		{"the newer ciphertext", func(r *kmsapi.DecryptRequest) { r.Ciphertext = newer.Ciphertext }, fault.AnnotationsMismatch, false},
		{"everything newer but the ciphertext", func(r *kmsapi.DecryptRequest) {
			r.KeyId, r.Annotations = newer.KeyId, newer.Annotations
		}, fault.AnnotationsMismatch, false},
		{"everything newer and the ciphertext relabelled", func(r *kmsapi.DecryptRequest) {
			r.KeyId, r.Annotations, r.Ciphertext = newer.KeyId, newer.Annotations, relabelled
		}, fault.CiphertextRefused, true},
	} {
		t.Run("old with "+c.name, func(t *testing.T) {
			request := decryptRequest(old)
			c.change(request)
			s.decryptsAs(t, request, nil, c.want, c.sent)
		})
	}
}

// anothersCiphertext has two clusters share one Transit key: only the associated data keeps their ciphertexts apart.
func anothersCiphertext(t *testing.T, s *subject) {
	ours := s.freshSubject(t, Settings{})
	theirs := newSubject(t, ours.Peer(t, Settings{Cluster: "another-cluster"}))
	plaintext := plaintextOf(48)
	a, b := ours.encrypt(t, plaintext), theirs.encrypt(t, plaintext)
	if a.KeyId == b.KeyId {
		t.Fatal("two clusters derive one key_id")
	}
	_, err := theirs.kms.Decrypt(limited(t), decryptRequest(a))
	theirs.refused(t, err, fault.KeyIDUnknown)
	disguised := decryptRequest(b)
	disguised.Ciphertext = a.Ciphertext
	theirs.decryptsAs(t, disguised, nil, fault.CiphertextRefused, true)
	theirs.decrypts(t, decryptRequest(b), plaintext)
	ours.decrypts(t, decryptRequest(a), plaintext)
}

// rotations rotates twice while callers encrypt all the time: key_id only ever goes forward, Encrypt agrees with Status, and everything
// stays readable.
func rotations(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{Quick: true})
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var used sync.Map // the key_ids that somebody has encrypted with
	written := make([][]sample, 3)
	for i := range written {
		callers.Go(func() { written[i] = f.encryptUntil(t, stop, &used) })
	}
	awaitUse := func(keyID string) {
		eventually(t, "somebody encrypts with the active key", func() bool { _, ok := used.Load(keyID); return ok || t.Failed() })
	}
	keyIDs := []string{f.status(t).KeyId}
	awaitUse(keyIDs[0])
	for range 2 {
		f.rotate(t)
		keyIDs = append(keyIDs, f.awaitKeyID(t, keyIDs[len(keyIDs)-1]))
		awaitUse(keyIDs[len(keyIDs)-1])
	}
	close(stop)
	callers.Wait()

	if keyIDs[0] == keyIDs[2] {
		t.Errorf("key_id went back to %q", keyIDs[0])
	}
	readable := map[string]int{}
	for _, samples := range written {
		at := 0
		for _, w := range samples {
			found := slices.Index(keyIDs, w.response.KeyId)
			if found < at {
				t.Fatalf("a caller got key_id number %d after number %d", found, at)
			}
			at = found
			// A few of each key are enough.
			if readable[w.response.KeyId]++; readable[w.response.KeyId] <= 10 {
				f.decrypts(t, decryptRequest(w.response), w.plaintext)
			}
		}
	}
}

type sample struct {
	plaintext []byte
	response  *kmsapi.EncryptResponse
}

// encryptUntil encrypts until stop is closed, each time between two looks at Status.
func (s *subject) encryptUntil(t *testing.T, stop <-chan struct{}, used *sync.Map) (written []sample) {
	status := func() string {
		r, err := s.kms.Status(limited(t), &kmsapi.StatusRequest{})
		if err != nil || r.Healthz != "ok" {
			t.Errorf("Status answers %v (error %v) during a rotation, want ok", r, err)
			return ""
		}
		return r.KeyId
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		plaintext := plaintextOf(48)
		before := status()
		r, err := s.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid()})
		after := status()
		switch {
		case err == nil && r.KeyId != before && r.KeyId != after:
			t.Errorf("Encrypt names key_id %q; Status names %q before and %q after", r.KeyId, before, after)
		case err == nil:
			written = append(written, sample{plaintext, r})
			used.Store(r.KeyId, true)
		case before != after:
			s.refused(t, err, fault.KeyChanged)
		default:
			t.Errorf("Encrypt during a rotation: %v", err)
		}
		select {
		case <-stop:
			return written
		case <-ticker.C:
		}
	}
}

// overtakenEncrypt holds one Encrypt back over a promotion: its response would name a key that Status no longer does.
func overtakenEncrypt(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{Quick: true, OpenBaoTimeout: 40 * time.Second})
	before := f.status(t).KeyId
	held := f.Hold(pathEncrypt, 1)
	defer held.Release()
	answered := make(chan error, 1)
	go func() {
		_, err := f.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintextOf(32), Uid: uid()})
		answered <- err
	}()
	if err := held.Await(limited(t), 1); err != nil {
		t.Fatal(err)
	}
	f.rotate(t)
	after := f.awaitKeyID(t, before)
	held.Release()
	f.refused(t, <-answered, fault.KeyChanged)
	if r := f.encrypt(t, plaintextOf(32)); r.KeyId != after {
		t.Errorf("the next Encrypt names %q, Status %q", r.KeyId, after)
	}
}
