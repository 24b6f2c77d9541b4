package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Scope is what every key_id of one provider has in common: the configured
// identity of the cluster, the OpenBao instance and the Transit key. All
// control-plane nodes of a cluster have the same Scope.
type Scope struct {
	ProviderName      string // transit.keyIdScope.providerName
	ClusterID         string // transit.keyIdScope.clusterId
	OpenBaoInstanceID string // openbao.instanceId
	OpenBaoNamespace  string // openbao.namespace; empty when none is configured
	TransitMountID    string // transit.keyIdScope.transitMountId
	KeyLineageID      string // transit.keyIdScope.keyLineageId
}

// Validate reports the first field that may not be part of an identity. Only
// the namespace may be empty.
func (s Scope) Validate() error {
	fields := []struct {
		name, value string
		optional    bool
	}{
		{"provider name", s.ProviderName, false},
		{"cluster id", s.ClusterID, false},
		{"OpenBao instance id", s.OpenBaoInstanceID, false},
		{"OpenBao namespace", s.OpenBaoNamespace, true},
		{"Transit mount id", s.TransitMountID, false},
		{"key lineage id", s.KeyLineageID, false},
	}
	for _, f := range fields {
		if f.optional && f.value == "" {
			continue
		}
		if err := CheckValue(f.value); err != nil {
			return fmt.Errorf("identity: %s %w", f.name, err)
		}
	}
	return nil
}

// CheckValue refuses a value that may not be part of an identity: empty, not
// UTF-8, holding NUL or another control character, or surrounded by white
// space. The error continues a sentence that begins with the field's name.
//
// These rules make the encodings below injective: NUL separates the fields of
// a key_id, and invalid UTF-8 would be replaced in the associated data.
func CheckValue(v string) error {
	switch {
	case v == "":
		return fmt.Errorf("is empty")
	case !utf8.ValidString(v):
		return fmt.Errorf("is not valid UTF-8")
	case strings.ContainsFunc(v, unicode.IsControl):
		return fmt.Errorf("contains a control character")
	case strings.TrimSpace(v) != v:
		return fmt.Errorf("is surrounded by white space")
	}
	return nil
}

// Hash is h(x) of the contract: unpadded base64url of the SHA-256 of x's
// bytes, always 43 characters.
func Hash(x string) string {
	sum := sha256.Sum256([]byte(x))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// hashLen is the length of Hash's result and of a key_id's digest.
const hashLen = 43

// strictBase64 refuses trailing bits that are not zero, so that 32 bytes have
// exactly one spelling.
var strictBase64 = base64.RawURLEncoding.Strict()

// IsHash reports whether s could be the result of Hash.
func IsHash(s string) bool {
	if len(s) != hashLen {
		return false
	}
	var digest [sha256.Size]byte
	n, err := strictBase64.Decode(digest[:], []byte(s))
	return err == nil && n == sha256.Size
}

// digest is SHA-256 over the fields, each followed by one NUL.
func digest(fields ...string) string {
	h := sha256.New()
	for _, f := range fields {
		h.Write([]byte(f))
		h.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
