package doctor

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/policy"
)

// otherKey lets the node use another key of the mount, with the policy for it. It gives back the world's own when the test ends.
func (w *world) otherKey(t *testing.T, mountPath, name string) {
	t.Helper()
	w.policy(t, policy.OpenBao(mountPath, name))
	w.configure(t, map[string]any{"transit.mountPath": mountPath, "transit.keyName": name})
	t.Cleanup(func() {
		w.configure(t, map[string]any{"transit.mountPath": mount, "transit.keyName": key})
	})
}

func TestKeyMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	t.Run("another name", func(t *testing.T) {
		w.otherKey(t, mount, key+"-none")
		r := examine(t, w)
		expect(t, r, "transit.key", command.Fail, "transit_key_missing", "the Transit key does not exist (HTTP 404)", "create the key before the first start", "never created again")
		onlyFails(t, r, "transit.key")
		passes(t, r, "auth.policy", "transit.upsert")
		for _, id := range []string{"transit.profile", "transit.roundtrip"} {
			skippedBecause(t, r, id, "transit.key")
		}
	})
	t.Run("another mount", func(t *testing.T) {
		w.otherKey(t, mount+"-none", key)
		r := examine(t, w)
		expect(t, r, "transit.key", command.Fail, "transit_key_missing", "nothing is mounted there", "correct transit.mountPath", ", or enable the Transit engine there")
		expect(t, r, "transit.upsert", command.Fail, "upsert_check_failed", "nothing is mounted there", "correct transit.mountPath", ", or enable the Transit engine there")
		onlyFails(t, r, "transit.key", "transit.upsert")
	})
	t.Run("no Transit mount", func(t *testing.T) {
		const kv = "doctor-kv-55e01c2a"
		must(t, w.transit.Root().Do(t.Context(), http.MethodPost, "sys/mounts/"+kv, map[string]any{"type": "transit"}, nil))
		w.otherKey(t, kv, key)
		r := examine(t, w)
		expect(t, r, "transit.key", command.Fail, "transit_key_missing", "the Transit key does not exist")
		onlyFails(t, r, "transit.key", "transit.upsert")
	})
	t.Run("deleted", func(t *testing.T) {
		w.policy(t, policy.OpenBao(mount, key))
		onlyFails(t, examine(t, w))
		must(t, w.transit.DeleteKey(t.Context(), key))
		r := examine(t, w)
		expect(t, r, "transit.key", command.Fail, "transit_key_missing")
		onlyFails(t, r, "transit.key")
	})
}

// TestProfile has keys that must not be used, each different from a good one in one thing.
func TestProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	const newKey = "transit.keyIdScope.keyLineageId"
	for i, c := range []struct {
		name           string
		create, config map[string]any
		words          []string
		noRoundTrip    bool // such a key cannot be tried
	}{
		{"exportable", map[string]any{"exportable": true}, nil, []string{"exportable is true and must be false", newKey}, false},
		{"plaintext backup", map[string]any{"allow_plaintext_backup": true}, nil, []string{"allow_plaintext_backup is true and must be false", newKey}, false},
		{"deletion allowed", nil, map[string]any{"deletion_allowed": true}, []string{"deletion_allowed is true and must be false", "update of the key's config"}, false},
		{"derived", map[string]any{"derived": true}, nil, []string{"derived is true and must be false", newKey}, true},
		{"convergent", map[string]any{"derived": true, "convergent_encryption": true}, nil, []string{"convergent_encryption is true and must be false"}, true},
		{"another cipher", map[string]any{"type": "chacha20-poly1305"}, nil, []string{"type is chacha20-poly1305 and must be aes256-gcm96", newKey}, true},
		{"for signatures", map[string]any{"type": "ed25519"}, nil, []string{"type is ed25519", "supports_encryption is false and must be true"}, true},
		{"two things", map[string]any{"exportable": true}, map[string]any{"deletion_allowed": true}, []string{
			"exportable is true and must be false; deletion_allowed is true", "for exportable: if no node of this cluster ever served, create another key", "for deletion_allowed: set it with an update",
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := fmt.Sprintf("%s-profile-%d", key, i)
			must(t, w.transit.CreateKey(t.Context(), name, c.create))
			if c.config != nil {
				must(t, w.transit.ConfigureKey(t.Context(), name, c.config))
			}
			w.otherKey(t, mount, name)
			r := examine(t, w)
			expect(t, r, "transit.profile", command.Fail, "profile_invalid", c.words...)
			onlyFails(t, r, "transit.profile")
			passes(t, r, "transit.key", "transit.upsert")
			if c.noRoundTrip {
				skippedBecause(t, r, "transit.roundtrip", "transit.profile")
			} else {
				passes(t, r, "transit.roundtrip")
			}
		})
	}
	t.Run("rotates by itself", func(t *testing.T) {
		name := key + "-auto"
		must(t, w.transit.CreateKey(t.Context(), name, map[string]any{"auto_rotate_period": "720h"}))
		w.otherKey(t, mount, name)
		r := examine(t, w)
		expect(t, r, "transit.profile", command.Warn, "auto_rotate_enabled", "auto_rotate_period is 720h", "set auto_rotate_period to 0")
		onlyFails(t, r, "transit.profile")
		passes(t, r, "transit.roundtrip")
	})
}

// TestLiveKey breaks the key of a node that has served: no next step gives up what it encrypted.
func TestLiveKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	w.stop(t)
	for _, c := range []struct {
		name   string
		spoil  func(t *testing.T)
		id     string
		reason string
		words  []string
		also   []string
	}{
		{"exportable", func(t *testing.T) {
			must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"exportable": true}))
		}, "transit.profile", "profile_invalid", []string{"exportable is true", "nothing encrypted is lost", "keep the key", "plan a move to a new key"}, nil},
		{"the mount is gone", func(t *testing.T) {
			must(t, w.transit.Root().Do(t.Context(), http.MethodDelete, "sys/mounts/"+mount, nil, nil))
		}, "transit.key", "transit_key_missing", []string{"nothing is mounted there", "correct transit.mountPath", "restore OpenBao from a backup: never create the key anew"}, []string{"transit.upsert"}},
		{"the engine is another", func(t *testing.T) {
			must(t, w.transit.Root().Do(t.Context(), http.MethodPost, "sys/mounts/"+mount, map[string]any{"type": "transit"}, nil))
			must(t, w.transit.AllowUpsert(t.Context(), false))
		}, "transit.key", "transit_key_missing", []string{"the Transit key does not exist", "restore the key from a backup of OpenBao: never create it anew"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spoil(t)
			r := examine(t, w)
			expect(t, r, c.id, command.Fail, c.reason, c.words...)
			stopped(t, r, append(c.also, c.id)...)
			for _, check := range r.Checks {
				if text := told(check); strings.Contains(text, "create another") || strings.Contains(text, "before the first start") || strings.Contains(text, "enable the") {
					t.Errorf("%s of a node with data says: %s", check.ID, text)
				}
			}
		})
	}
}

func TestUpsert(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	must(t, w.transit.AllowUpsert(t.Context(), true))
	r := examine(t, w)
	expect(t, r, "transit.upsert", command.Fail, "upsert_allowed", "lets an encrypt request create keys", "set disable_upsert to true")
	onlyFails(t, r, "transit.upsert")
	passes(t, r, "transit.key", "transit.profile")
	skippedBecause(t, r, "transit.roundtrip", "transit.upsert")
	if n, err := w.transit.Requests("/encrypt/" + key); err != nil || n != 0 {
		t.Errorf("%d encryptions were asked for where one may create a key (%v)", n, err)
	}
	must(t, w.transit.AllowUpsert(t.Context(), false))
	onlyFails(t, examine(t, w))
}

// TestRoundTrip breaks the last step: everything can be read, and the key does not do its work.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	for _, c := range []struct {
		name, path string
		status     int
		body       string
		reason     string
		words      []string
	}{
		{"another plaintext", "/decrypt/", 200, `{"data":{"plaintext":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 32))) + `"}}`, "deep_probe_invalid", []string{"what was decrypted is not what was encrypted", "check what answers at openbao.address"}},
		{"another version", "/encrypt/", 200, `{"data":{"ciphertext":"vault:v7:QUJDRA=="}}`, "deep_probe_invalid", []string{"does not carry the key version that was asked for"}},
		{"no JSON", "/encrypt/", 200, `<html>`, "deep_probe_invalid", nil},
		{"refused", "/decrypt/", 400, `{"errors":["cipher: message authentication failed"]}`, "deep_probe_invalid", []string{"OpenBao refused the ciphertext", "(HTTP 400)"}},
		{"the request", "/encrypt/", 400, `{"errors":["something"]}`, "deep_probe_failed", []string{"OpenBao refused the request", "audit log"}},
		{"failing", "/encrypt/", 500, `{"errors":["internal error"]}`, "openbao_unavailable", []string{"(HTTP 500)", "see OpenBao's log"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := w.proxy.Override(c.path, func(rw http.ResponseWriter, _ *http.Request) {
				rw.WriteHeader(c.status)
				fmt.Fprint(rw, c.body)
			})
			defer end()
			r := examine(t, w)
			expect(t, r, "transit.roundtrip", command.Fail, c.reason, c.words...)
			onlyFails(t, r, "transit.roundtrip")
		})
	}
	onlyFails(t, examine(t, w))
}

// TestMinimums raises the key's minimums past what the node uses.
func TestMinimums(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.serve(t)
	w.stop(t)
	_, err := w.transit.Rotate(t.Context(), key)
	must(t, err)
	stopped(t, examine(t, w))

	must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"min_encryption_version": 2}))
	r := examine(t, w)
	expect(t, r, "transit.roundtrip", command.Fail, "encryption_blocked", "min_encryption_version 2 forbids encryption with version 1", "lower min_encryption_version in OpenBao to 1", "promoted version 2")
	passes(t, r, "transit.key", "transit.profile", "transit.upsert", "registry.state")
	stopped(t, r, "transit.roundtrip", "registry.metadata")

	must(t, w.transit.ConfigureKey(t.Context(), key, map[string]any{"min_encryption_version": 0, "min_decryption_version": 2}))
	r = examine(t, w)
	skippedBecause(t, r, "transit.roundtrip", "registry.metadata")
	expect(t, r, "registry.metadata", command.Fail, "versions_blocked")
	stopped(t, r, "registry.metadata")
}
