package identity

import "strings"

const (
	fingerprintPrefix = "cfg1."
	fingerprintDomain = "baokms/configuration-fingerprint/v1"
)

// Fingerprint identifies the configuration that a registry belongs to: the
// scope and the raw Transit mount path and key name. It is safe to print and
// to compare across nodes (design: identity, configuration fingerprint).
//
// The namespace is always one of the hashed fields, so the number of fields is
// fixed and no two configurations share a preimage.
func (s Scope) Fingerprint(mountPath, keyName string) string {
	return fingerprintPrefix + digest(fingerprintDomain,
		s.ProviderName, s.ClusterID, s.OpenBaoInstanceID, s.OpenBaoNamespace,
		s.TransitMountID, s.KeyLineageID, mountPath, keyName)
}

// IsFingerprint reports whether f could be the result of Fingerprint.
func IsFingerprint(f string) bool {
	rest, ok := strings.CutPrefix(f, fingerprintPrefix)
	return ok && IsHash(rest)
}
