package identity

import (
	"errors"
	"strconv"
	"strings"
)

const (
	keyIDPrefix = "obk2."
	keyIDDomain = "openbao-kubernetes-kms/key-id/v1"
)

// ErrMalformedKeyID is returned for a key_id that this contract cannot have
// produced.
var ErrMalformedKeyID = errors.New("key_id is malformed")

// KeyID derives the key_id of one Transit version. createdAtUnix is the
// version's creation time in OpenBao in whole seconds. The scope must be valid
// and both numbers positive: Bind checks, KeyID does not.
func (s Scope) KeyID(version int, createdAtUnix int64) string {
	fields := make([]string, 0, 9)
	fields = append(fields, keyIDDomain, s.ProviderName, s.ClusterID, s.OpenBaoInstanceID)
	if s.OpenBaoNamespace != "" {
		fields = append(fields, s.OpenBaoNamespace)
	}
	fields = append(fields, s.TransitMountID, s.KeyLineageID,
		strconv.Itoa(version), strconv.FormatInt(createdAtUnix, 10))
	return keyIDPrefix + digest(fields...)
}

// ParseKeyID returns nil for a well-formed key_id and ErrMalformedKeyID for
// anything else: the prefix and 43 characters of strict base64url, no more.
func ParseKeyID(s string) error {
	rest, ok := strings.CutPrefix(s, keyIDPrefix)
	if !ok || !IsHash(rest) {
		return ErrMalformedKeyID
	}
	return nil
}
