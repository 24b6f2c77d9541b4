package diagnose

import (
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/transit"
)

func goodKey() transit.Key {
	return transit.Key{Type: transit.KeyType, Latest: 1, SupportsEncryption: true, SupportsDecryption: true}
}

// TestProfileFinding has what a real server cannot give or not together.
func TestProfileFinding(t *testing.T) {
	const (
		newKey    = "create another key and give it a new transit.keyIdScope.keyLineageId"
		config    = "set it with an update of the key's config"
		automatic = "set auto_rotate_period to 0 with an update of the key's config, and rotate when somebody watches the nodes"
	)
	for _, c := range []struct {
		name                  string
		change                func(*transit.Key)
		want                  command.Result
		reason, message, next string
	}{
		{"good", func(*transit.Key) {}, command.Pass, "", "", ""},
		{"soft-deleted", func(k *transit.Key) { k.SoftDeleted = true }, command.Fail, "profile_invalid", "soft_deleted is true and must be false", "restore the key in OpenBao"},
		{"a type of which nothing is known", func(k *transit.Key) { k.Type = "<script>" }, command.Fail, "profile_invalid", "type is another type and must be aes256-gcm96", newKey},
		{"rotates by itself", func(k *transit.Key) { k.AutoRotatePeriod = 24 * time.Hour }, command.Warn, "auto_rotate_enabled", "auto_rotate_period is 24h, so that OpenBao rotates the key by itself", automatic},
		{"two of one kind", func(k *transit.Key) { k.Exportable, k.Derived = true, true }, command.Fail, "profile_invalid",
			"derived is true and must be false; exportable is true and must be false", newKey},
		{"all kinds", func(k *transit.Key) {
			k.Exportable, k.AllowPlaintextBackup, k.DeletionAllowed, k.AutoRotatePeriod = true, true, true, 90*time.Minute
		}, command.Fail, "profile_invalid",
			"exportable is true and must be false; allow_plaintext_backup is true and must be false; deletion_allowed is true and must be false; auto_rotate_period is 1h30m, so that OpenBao rotates the key by itself",
			"for exportable and allow_plaintext_backup: " + newKey + "; for deletion_allowed: " + config + "; for auto_rotate_period: " + automatic},
	} {
		k := goodKey()
		c.change(&k)
		f := checkProfile(t.Context(), &exam{key: &k})
		if resultOf(f) != c.want || f.reason != c.reason || f.message != c.message || f.nextStep != c.next {
			t.Errorf("%s: %s %q %q; %q", c.name, resultOf(f), f.reason, f.message, f.nextStep)
		}
	}
}

// TestDeniedIsNotAsked: where auth.policy has found that something is denied, no
// request is made; there is no way to OpenBao here that could make one.
func TestDeniedIsNotAsked(t *testing.T) {
	for purpose, check := range map[string]check{toReadMetadata: {run: checkKey}, toReadUpsert: {run: checkUpsert}} {
		f := check.run(t.Context(), &exam{lacking: []string{purpose}})
		if f.result != command.Skip || len(f.because) != 1 || f.because[0] != authPolicy {
			t.Errorf("without the right to %s: %+v", purpose, f)
		}
	}
}
