package transit

import (
	"slices"
	"strconv"
)

// KeyType is the only type of key that the provider uses.
const KeyType = "aes256-gcm96"

// keyTypes are the types that may be named in a report; whatever else OpenBao
// answers is not repeated.
var keyTypes = []string{
	"aes128-gcm96", KeyType, "chacha20-poly1305", "xchacha20-poly1305",
	"ed25519", "ecdsa-p256", "ecdsa-p384", "ecdsa-p521",
	"rsa-2048", "rsa-3072", "rsa-4096", "hmac", "managed_key",
	"ml-dsa", "slh-dsa", "hybrid", "aes128-cmac", "aes256-cmac",
}

// ProfileViolation is one way in which a key breaks the profile.
type ProfileViolation struct {
	// Field is OpenBao's name of the field, as in a read of the key.
	Field string
	// Want and Got are the field's values, in OpenBao's words.
	Want, Got string
	// Fix is the next step, whether or not anything was ever encrypted.
	Fix string
	// Cure says what can be done about it at all.
	Cure Cure
}

// Cure says whether a key can still be made to fit the profile.
type Cure int

// The cures.
const (
	// Curable: Fix undoes the violation.
	Curable Cure = iota
	// Lasting: the field can be switched on at any time and never off again.
	Lasting
	// Innate: the field is settled when a key is created, so that one which fitted
	// before was replaced by another key.
	Innate
)

// String is "field is got and must be want: fix".
func (v ProfileViolation) String() string {
	return v.Field + " is " + v.Got + " and must be " + v.Want + ": " + v.Fix
}

// Next steps. A key cannot be made another one, and an exportable key may have
// been exported already.
const (
	fixNewKey = "if no node of this cluster ever served, create another key and give it a new transit.keyIdScope.keyLineageId; " +
		"else change neither the key nor keyLineageId nor state.path while anything is encrypted"
	fixConfig = "set it with an update of the key's config"
)

// CheckProfile returns every violation of the key profile (design: openbao,
// metadata view and key profile), none for a good key. AutoRotatePeriod is not
// part of it: it is for doctor to find. The mount's disable_upsert is not the
// key's and read apart.
func (k Key) CheckProfile() []ProfileViolation {
	var found []ProfileViolation
	if k.Type != KeyType {
		got := "another type"
		if slices.Contains(keyTypes, k.Type) {
			got = k.Type
		}
		found = append(found, ProfileViolation{"type", KeyType, got, fixNewKey, Innate})
	}
	for _, f := range []struct {
		name      string
		got, want bool
		fix       string
		cure      Cure
	}{
		{"derived", k.Derived, false, fixNewKey, Innate},
		{"convergent_encryption", k.ConvergentEncryption, false, fixNewKey, Innate},
		{"exportable", k.Exportable, false, fixNewKey, Lasting},
		{"allow_plaintext_backup", k.AllowPlaintextBackup, false, fixNewKey, Lasting},
		{"deletion_allowed", k.DeletionAllowed, false, fixConfig, Curable},
		{"soft_deleted", k.SoftDeleted, false, "restore the key in OpenBao", Curable},
		{"supports_encryption", k.SupportsEncryption, true, fixNewKey, Innate},
		{"supports_decryption", k.SupportsDecryption, true, fixNewKey, Innate},
	} {
		if f.got != f.want {
			found = append(found, ProfileViolation{f.name, strconv.FormatBool(f.want), strconv.FormatBool(f.got), f.fix, f.cure})
		}
	}
	return found
}
