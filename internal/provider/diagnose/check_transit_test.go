package diagnose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/transit"
)

func goodKey() transit.Key {
	return transit.Key{Type: transit.KeyType, Latest: 1, SupportsEncryption: true, SupportsDecryption: true}
}

// TestProfileFinding has what a real server cannot give or not together.
func TestProfileFinding(t *testing.T) {
	const (
		newKey    = "if no node of this cluster ever served, create another key and give it a new transit.keyIdScope.keyLineageId; else change neither the key nor keyLineageId nor state.path while anything is encrypted"
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
		e := stateExam(t)
		e.key = &k
		f := checkProfile(t.Context(), e)
		if resultOf(f) != c.want || f.reason != c.reason || f.message != c.message || f.nextStep != c.next {
			t.Errorf("%s: %s %q %q; %q", c.name, resultOf(f), f.reason, f.message, f.nextStep)
		}
	}
}

// stateExam is an examination of a node that has none, or one of these files.
func stateExam(t *testing.T, files ...string) *exam {
	t.Helper()
	e := jwtExam()
	e.config.State.Path = filepath.Join(t.TempDir(), "registry.json")
	for _, suffix := range files {
		if err := os.WriteFile(e.config.State.Path+suffix, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// TestLiveDataIsNotAbandoned: where something may have been encrypted, no next step
// is another key, another lineage or another state.
func TestLiveDataIsNotAbandoned(t *testing.T) {
	missing := func(noMount bool) error {
		f := fault.New(fault.KeyMissing, "read", "create the key before the first start, or correct transit.keyName")
		if noMount {
			f = fault.New(fault.KeyMissing, "read", "nothing is mounted there: correct transit.mountPath or openbao.namespace")
			f.Err = openbao.ErrNoMount
		}
		return f
	}
	profile := func(change func(*transit.Key)) func(*exam) finding {
		return func(e *exam) finding {
			k := goodKey()
			change(&k)
			e.key = &k
			return checkProfile(t.Context(), e)
		}
	}
	for _, c := range []struct {
		name            string
		look            func(*exam) finding
		fresh, withData string
	}{
		{"exportable", profile(func(k *transit.Key) { k.Exportable = true }), "create another key", "nothing encrypted is lost; keep the key, change neither keyLineageId nor state.path while anything is encrypted, and plan a move"},
		{"another type", profile(func(k *transit.Key) { k.Type = "ed25519" }), "create another key", "restore the key that this node has served with"},
		{"soft-deleted", profile(func(k *transit.Key) { k.SoftDeleted = true }), "restore the key in OpenBao", "restore the key in OpenBao"},
		{"no key", func(e *exam) finding { return e.noKey(missing(false)) }, "create the key before the first start", "correct transit.keyName, or restore the key from a backup of OpenBao: never create it anew"},
		{"no mount", func(e *exam) finding { return e.noKey(missing(true)) }, "correct transit.mountPath or openbao.namespace, or enable the Transit engine there", "if the mount is gone, restore OpenBao from a backup: never create the key anew"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reason := c.look(stateExam(t)).reason
			fails(reason, c.fresh).hold(t, "without state", c.look(stateExam(t)))
			for _, file := range []string{"", ".checkpoint"} {
				f := c.look(stateExam(t, file))
				fails(reason, c.withData).hold(t, "with state", f)
				if strings.Contains(f.nextStep, "create another") || strings.Contains(f.nextStep, "create the key before") || strings.Contains(f.nextStep, "enable") {
					t.Errorf("a node with data is told: %s", f.nextStep)
				}
			}
		})
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
