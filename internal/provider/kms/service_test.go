package kms

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
	"github.com/baokms/baokms/internal/provider/status"
)

func TestStatus(t *testing.T) {
	r := kmstest.Registry(t)
	stale := kmstest.Facts(r)
	stale.Metadata.ValidatedAt = time.Now().Add(-kmstest.MaxStaleness - time.Second)
	anotherKey := kmstest.Facts(r)
	anotherKey.Deep.KeyID = kmstest.Binding(t, r, kmstest.Retired).KeyID()
	active := kmstest.Binding(t, r, kmstest.Active).KeyID()

	cases := []struct {
		name           string
		view           *status.View
		healthz, keyID string
	}{
		{"healthy", kmstest.Healthy(r), "ok", active},
		{"starting", status.New(status.Facts{}), "starting", ""},
		{"stale", status.New(stale), "status_stale", ""},
		{"metadata failed", kmstest.Unhealthy(r, status.MetadataReadFailed), "metadata_read_failed", ""},
		{"upsert allowed", kmstest.Unhealthy(r, status.UpsertAllowed), "upsert_allowed", ""},
		{"deep probe of another key", status.New(anotherKey), "deep_probe_pending", ""},
	}
	f := start(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f.board.Store(c.view)
			got, err := f.client.Status(context.Background(), &kmsapi.StatusRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Version != "v2" || got.Healthz != c.healthz || got.KeyId != c.keyID {
				t.Errorf("Status = %s %s %q, want v2 %s %q", got.Version, got.Healthz, got.KeyId, c.healthz, c.keyID)
			}
		})
	}
	wantCalls(t, f)
}

// Invariants 1 and 3: Encrypt uses the active snapshot, and says so.
func TestEncryptAnswersWithTheActiveSnapshot(t *testing.T) {
	f := start(t)
	st, err := f.client.Status(context.Background(), &kmsapi.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.encrypt()
	if err != nil {
		t.Fatal(err)
	}
	active := kmstest.Binding(t, f.registry, kmstest.Active)
	if got.KeyId != st.KeyId || got.KeyId != active.KeyID() {
		t.Errorf("key_id is %q, Status says %q, the registry %q", got.KeyId, st.KeyId, active.KeyID())
	}
	if want := ciphertextOf(kmstest.Active, []byte("seed")); !bytes.Equal(got.Ciphertext, want) {
		t.Errorf("ciphertext is %q, want %q", got.Ciphertext, want)
	}
	want := active.Annotations(pluginVersion)
	if len(got.Annotations) != 8 || len(want) != 8 {
		t.Errorf("response has %d annotations, want the contract's 8", len(got.Annotations))
	}
	for key, value := range want {
		if !bytes.Equal(got.Annotations[key], value) {
			t.Errorf("annotation %s is %q, want %q", key, got.Annotations[key], value)
		}
	}
	wantCalls(t, f, "encrypt v3")

	plain, err := f.client.Decrypt(context.Background(), &kmsapi.DecryptRequest{
		Ciphertext: got.Ciphertext, KeyId: got.KeyId, Annotations: got.Annotations, Uid: "u",
	})
	if err != nil || string(plain.Plaintext) != "seed" {
		t.Errorf("Decrypt of Encrypt's answer = %q, %v; want seed", plain.GetPlaintext(), err)
	}
}

func TestEncryptOverwritesThePlaintext(t *testing.T) {
	for name, err := range map[string]error{"success": nil, "failure": fault.New(fault.Sealed, "encrypt", "")} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.transit.encrypt = func(_ context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
				if string(plaintext) != "seed" {
					t.Errorf("Transit got %q, want seed", plaintext)
				}
				return ciphertextOf(b.Version(), plaintext), err
			}
			_, _ = f.encrypt()
			if got := f.transit.lastPlaintext(); !bytes.Equal(got, make([]byte, 4)) {
				t.Errorf("the plaintext is %q after the call, want zeroes", got)
			}
		})
	}
}

func TestEncryptRefusesWithoutAHealthyStatus(t *testing.T) {
	f := start(t)
	for _, view := range []*status.View{
		status.New(status.Facts{}),
		kmstest.Unhealthy(f.registry, status.ProfileInvalid),
	} {
		f.board.Store(view)
		_, err := f.encrypt()
		f.wantError(t, err, "Encrypt", fault.NotHealthy)
	}
	wantCalls(t, f)
	if !strings.Contains(f.log.String(), "profile_invalid") {
		t.Errorf("the log does not say why:\n%s", f.log)
	}
}

// Invariant 1 across a promotion.
func TestEncryptIsDiscardedWhenThePromotionOvertakesIt(t *testing.T) {
	f := start(t)
	promoted := kmstest.Promoted(t, f.registry)
	f.transit.encrypt = func(_ context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
		f.board.Store(kmstest.Healthy(promoted))
		return ciphertextOf(b.Version(), plaintext), nil
	}
	_, err := f.encrypt()
	f.wantError(t, err, "Encrypt", fault.KeyChanged)

	f.transit.encrypt = nil
	got, err := f.encrypt()
	if err != nil || got.KeyId != promoted.Active().KeyID {
		t.Errorf("the next Encrypt has key_id %q (%v), want the promoted %q", got.GetKeyId(), err, promoted.Active().KeyID)
	}
	if v := string(got.Annotations["transit-key-version.kms.openbao.org"]); v != "4" {
		t.Errorf("its version annotation is %q, want 4", v)
	}
	wantCalls(t, f, "encrypt v3", "encrypt v4")
}

func TestEncryptSurvivesAViewThatKeepsTheKey(t *testing.T) {
	f := start(t)
	f.transit.encrypt = func(_ context.Context, b *identity.Binding, plaintext []byte) ([]byte, error) {
		f.board.Store(kmstest.Unhealthy(f.registry, status.DeepProbeFailed))
		return ciphertextOf(b.Version(), plaintext), nil
	}
	if _, err := f.encrypt(); err != nil {
		t.Errorf("Encrypt = %v, want its answer: the active key_id has not changed", err)
	}
}

func TestDecryptUsesTheSnapshotThatIsNamed(t *testing.T) {
	for version, call := range map[int]string{kmstest.Retired: "decrypt v2", kmstest.Active: "decrypt v3", kmstest.Pending: "decrypt v4"} {
		f := start(t)
		got, err := f.client.Decrypt(context.Background(), f.decryptRequest(t, version))
		if err != nil || string(got.Plaintext) != "seed" {
			t.Errorf("version %d: Decrypt = %q, %v; want seed", version, got.GetPlaintext(), err)
		}
		wantCalls(t, f, call)
		if f.discover.asked() != 0 {
			t.Errorf("version %d: a known key_id was looked up in OpenBao", version)
		}
	}
}

// Invariant 8: known identities stay readable whatever Status says.
func TestDecryptGoesOnWhileUnhealthy(t *testing.T) {
	f := start(t)
	f.board.Store(kmstest.Unhealthy(f.registry, status.StateSaveFailed))
	got, err := f.client.Decrypt(context.Background(), f.decryptRequest(t, kmstest.Active))
	if err != nil || string(got.Plaintext) != "seed" {
		t.Errorf("Decrypt = %q, %v; want seed", got.GetPlaintext(), err)
	}
}

func TestDecryptRefusesARemovedKeyWithoutALookup(t *testing.T) {
	f := start(t)
	_, err := f.client.Decrypt(context.Background(), f.decryptRequest(t, kmstest.Removed))
	f.wantError(t, err, "Decrypt", fault.KeyIDUnknown)
	wantCalls(t, f)
	if f.discover.asked() != 0 {
		t.Error("a removed key_id was looked up in OpenBao")
	}
}

// unknownRequest is valid for version 5, which the fixture's registry does not
// have and discovered does.
func unknownRequest(t *testing.T, f *fixture) (req *kmsapi.DecryptRequest, discovered *status.View) {
	t.Helper()
	r := kmstest.Observed(t, f.registry)
	f.registry = r
	return f.decryptRequest(t, kmstest.Pending+1), kmstest.Healthy(r)
}

func TestDecryptDiscovers(t *testing.T) {
	failed := fault.New(fault.DiscoveryFailed, "read key metadata", "")
	cases := []struct {
		name     string
		discover func(f *fixture, found *status.View) error
		cause    fault.Cause
	}{
		{"found", func(f *fixture, found *status.View) error { f.board.Store(found); return nil }, fault.None},
		{"read, not there", func(*fixture, *status.View) error { return nil }, fault.KeyIDUnknown},
		{"said not to exist", func(*fixture, *status.View) error { return fault.New(fault.KeyIDUnknown, "discover", "") }, fault.KeyIDUnknown},
		{"read failed", func(*fixture, *status.View) error { return failed }, fault.DiscoveryFailed},
		{"OpenBao unreachable", func(*fixture, *status.View) error { return fault.New(fault.ConnectionFailed, "read", "") }, fault.DiscoveryFailed},
		{"policy denies", func(*fixture, *status.View) error { return fault.New(fault.PolicyDenied, "read", "") }, fault.DiscoveryFailed},
		{"shutting down", func(*fixture, *status.View) error { return context.Canceled }, fault.DiscoveryFailed},
		{"unclassified", func(*fixture, *status.View) error { return errors.New("secret text") }, fault.DiscoveryFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := start(t)
			req, found := unknownRequest(t, f)
			f.discover.discover = func(_ context.Context, keyID string) error {
				if keyID != req.KeyId {
					t.Errorf("looked up %q, want %q", keyID, req.KeyId)
				}
				return c.discover(f, found)
			}
			got, err := f.client.Decrypt(context.Background(), req)
			if f.discover.asked() != 1 {
				t.Errorf("looked up %d times, want once", f.discover.asked())
			}
			if c.cause != fault.None {
				f.wantError(t, err, "Decrypt", c.cause)
				wantCalls(t, f)
				return
			}
			if err != nil || string(got.Plaintext) != "seed" {
				t.Errorf("Decrypt = %q, %v; want seed", got.GetPlaintext(), err)
			}
			wantCalls(t, f, "decrypt v5")
		})
	}
	t.Run("no discoverer", func(t *testing.T) {
		f := start(t, func(o *Options) { o.Discoverer = nil })
		req, _ := unknownRequest(t, f)
		_, err := f.client.Decrypt(context.Background(), req)
		f.wantError(t, err, "Decrypt", fault.KeyIDUnknown)
	})
	t.Run("no registry", func(t *testing.T) {
		f := start(t)
		f.board.Store(status.New(status.Facts{}))
		_, err := f.client.Decrypt(context.Background(), f.decryptRequest(t, kmstest.Active))
		f.wantError(t, err, "Decrypt", fault.DiscoveryFailed)
	})
	if !strings.Contains(fault.DiscoveryFailed.Text(), "key_metadata_refresh_failed") {
		t.Errorf("the text of a failed lookup is %q, want key_metadata_refresh_failed in it", fault.DiscoveryFailed.Text())
	}
}

func TestNewRefusesOptions(t *testing.T) {
	valid := Options{Views: &status.Board{}, Transit: &fakeTransit{}, PluginVersion: pluginVersion}
	with := func(change func(*Options)) Options {
		o := valid
		change(&o)
		return o
	}
	cases := []struct {
		name string
		o    Options
		want string
	}{
		{"default caps", valid, ""},
		{"smallest caps", with(func(o *Options) { o.Caps = Caps{1, 1, 1} }), ""},
		{"largest caps", with(func(o *Options) { o.Caps = Caps{1024, 1024, 1024} }), ""},
		{"status 0", with(func(o *Options) { o.Caps = Caps{0, 1, 1} }), "server.maxConcurrentStatus is 0"},
		{"encrypt 1025", with(func(o *Options) { o.Caps = Caps{1, 1025, 1} }), "server.maxConcurrentEncrypt is 1025"},
		{"decrypt -1", with(func(o *Options) { o.Caps = Caps{1, 1, -1} }), "server.maxConcurrentDecrypt is -1"},
		{"no version", with(func(o *Options) { o.PluginVersion = "" }), "version"},
		{"version with a space", with(func(o *Options) { o.PluginVersion = "v1 beta" }), "version"},
	}
	for _, c := range cases {
		s, err := New(c.o)
		switch {
		case c.want == "" && (err != nil || s == nil):
			t.Errorf("%s: New = %v, %v; want a service", c.name, s, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: New = %v, want an error about %q", c.name, err, c.want)
		}
	}
}
