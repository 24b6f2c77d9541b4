package conformance

import (
	"testing"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// awaitUnhealthy waits until Status tells a reason, and asserts that it names no key then.
func (s *subject) awaitUnhealthy(t *testing.T, reason string) {
	t.Helper()
	var last *kmsapi.StatusResponse
	eventually(t, "Status says "+reason, func() bool {
		r, err := s.kms.Status(limited(t), &kmsapi.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		last = r
		return r.Healthz == reason
	})
	if last.KeyId != "" || last.Version != "v2" {
		t.Errorf("an unhealthy Status names version %q and key_id %q; want v2 and none", last.Version, last.KeyId)
	}
}

func (s *subject) awaitHealthy(t *testing.T, keyID string) {
	t.Helper()
	eventually(t, "Status is healthy again", func() bool {
		r, err := s.kms.Status(limited(t), &kmsapi.StatusRequest{})
		return err == nil && r.Healthz == "ok"
	})
	if got := s.status(t).KeyId; got != keyID {
		t.Errorf("the provider recovered with key_id %q, before it was %q", got, keyID)
	}
}

// refusesEncrypt asserts that Encrypt is refused without a request to OpenBao.
func (s *subject) refusesEncrypt(t *testing.T, want fault.Cause) {
	t.Helper()
	_, err := s.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintextOf(32), Uid: uid()})
	s.refused(t, err, want)
}

func staleProbes(t *testing.T, s *subject) {
	// Metadata grows old before the probe that hangs has failed: its timeout begins up to a probe's interval after the last good one.
	f := s.freshSubject(t, Settings{Quick: true, MaxStaleness: 2 * time.Second, OpenBaoTimeout: 1900 * time.Millisecond})
	plaintext := plaintextOf(32)
	r := f.encrypt(t, plaintext)
	held := f.Hold(pathMetadata, -1)
	defer held.Release()
	if err := held.Await(limited(t), 1); err != nil {
		t.Fatal(err)
	}
	f.awaitUnhealthy(t, "status_stale")
	f.refusesEncrypt(t, fault.NotHealthy)
	f.decrypts(t, decryptRequest(r), plaintext)
	held.Release()
	f.awaitHealthy(t, r.KeyId)
	f.decrypts(t, decryptRequest(f.encrypt(t, plaintext)), plaintext)
}

func unhealthyProvider(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{Quick: true})
	plaintext := plaintextOf(32)
	r := f.encrypt(t, plaintext)
	if err := f.AllowUpsert(limited(t), true); err != nil {
		t.Fatal(err)
	}
	f.awaitUnhealthy(t, "upsert_allowed")
	f.refusesEncrypt(t, fault.NotHealthy)
	f.decrypts(t, decryptRequest(r), plaintext)
	if err := f.AllowUpsert(limited(t), false); err != nil {
		t.Fatal(err)
	}
	f.awaitHealthy(t, r.KeyId)
}

func revokedToken(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{})
	plaintext := plaintextOf(32)
	r := f.encrypt(t, plaintext)
	if err := f.RevokeTokens(limited(t)); err != nil {
		t.Fatal(err)
	}
	paths := f.requests(t, func() { f.decrypts(t, decryptRequest(r), plaintext) })
	if len(paths) != 3 || count(paths, pathDecrypt) != 2 || count(paths, "/login") != 1 {
		t.Errorf("OpenBao saw %q; want a refused decrypt, one login and one retry", paths)
	}
}

// outageAnswers are what the calls after an outage get, in the order in which they are made: Encrypt, Decrypt, Decrypt with an unknown
// key_id.
var outageAnswers = []struct {
	name             string
	outage           Outage
	encrypt, decrypt fault.Cause
	healthz          string
}{
	{"sealed", Sealed, fault.Sealed, fault.Sealed, "metadata_read_failed"},
	{"stopped", Stopped, fault.ConnectionFailed, fault.ConnectionFailed, "metadata_read_failed"},
	// To encrypt with a key that does not exist is to create it for OpenBao, and that the policy denies.
	{"key deleted", KeyDeleted, fault.PolicyDenied, fault.KeyMissing, "metadata_read_failed"},
	{"login refused", LoginRefused, fault.LoginRejected, fault.LoginRejected, "auth_failed"},
	{"rate limited", RateLimited, fault.RateLimited, fault.RateLimited, "metadata_read_failed"},
}

// narrowedPolicy: what is denied stops, each request once under a fresh token and then without a word to OpenBao; what is allowed goes on.
func narrowedPolicy(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{})
	r := f.encrypt(t, plaintextOf(32))
	if err := f.Break(limited(t), PolicyNarrowed); err != nil {
		t.Fatal(err)
	}
	f.refusesEncrypt(t, fault.PolicyDenied)
	decrypt := func(want fault.Cause) {
		t.Helper()
		_, err := f.kms.Decrypt(limited(t), decryptRequest(r))
		f.refused(t, err, want)
	}
	// The recovery has just been, so another has to wait. OpenBao's own word says that it is the policy.
	decrypt(fault.DenialDelayed)
	paths := f.requests(t, func() {
		f.refusesEncrypt(t, fault.DenialDelayed)
		decrypt(fault.DenialDelayed)
	})
	if len(paths) != 0 {
		t.Errorf("OpenBao saw %q while nothing may be sent", paths)
	}
	unknown := decryptRequest(r)
	unknown.KeyId = unknownID
	_, err := f.kms.Decrypt(limited(t), unknown)
	f.refused(t, err, fault.KeyIDUnknown)
	f.status(t)
}

func outages(t *testing.T, s *subject) {
	for _, c := range outageAnswers {
		t.Run(c.name, func(t *testing.T) {
			f := s.freshSubject(t, Settings{})
			r := f.encrypt(t, plaintextOf(32))
			if err := f.Break(limited(t), c.outage); err != nil {
				t.Fatal(err)
			}
			f.refusesEncrypt(t, c.encrypt)
			_, err := f.kms.Decrypt(limited(t), decryptRequest(r))
			f.refused(t, err, c.decrypt)
			// No probe has seen it. The lookup fails, and counts like one.
			f.status(t)
			unknown := decryptRequest(r)
			unknown.KeyId = unknownID
			_, err = f.kms.Decrypt(limited(t), unknown)
			f.refused(t, err, fault.DiscoveryFailed)
			f.awaitUnhealthy(t, c.healthz)
			f.refusesEncrypt(t, fault.NotHealthy)
			// Not allowed again yet: still nobody can say.
			_, err = f.kms.Decrypt(limited(t), unknown)
			f.refused(t, err, fault.DiscoveryFailed)
		})
	}
}

// nothingSecret comes last: it searches what the whole run has left on the target itself.
func nothingSecret(t *testing.T, s *subject) {
	s.encrypt(t, plaintextOf(64))
	s.searchOutput(t)
}
