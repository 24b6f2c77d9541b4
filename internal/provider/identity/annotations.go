package identity

import (
	"fmt"
	"strconv"
)

// Annotation keys (design: identity, annotations).
const (
	annotationProvider      = "provider.kms.openbao.org"
	annotationKeyIDHash     = "key-id-hash.kms.openbao.org"
	annotationKeyVersion    = "transit-key-version.kms.openbao.org"
	annotationMountHash     = "transit-mount-hash.kms.openbao.org"
	annotationKeyHash       = "transit-key-hash.kms.openbao.org"
	annotationNamespaceHash = "openbao-namespace-hash.kms.openbao.org"
	annotationPluginVersion = "plugin-version.kms.openbao.org"
	annotationAADVersion    = "aad-version.kms.openbao.org"
)

// An annotation is one row of the contract: its key and the shape of its value.
type annotation struct {
	key        string
	wellFormed func(string) bool
}

// The order is that of the checks, so that the error for a request with several
// faults is always the same one.
const (
	indexAADVersion = iota
	indexProvider
	indexKeyIDHash
	indexKeyVersion
	indexMountHash
	indexKeyHash
	indexNamespaceHash
	indexPluginVersion
	annotationCount
)

var annotations = [annotationCount]annotation{
	indexAADVersion:    {annotationAADVersion, func(v string) bool { return v == aadVersion }},
	indexProvider:      {annotationProvider, isPrintable},
	indexKeyIDHash:     {annotationKeyIDHash, IsHash},
	indexKeyVersion:    {annotationKeyVersion, isVersion},
	indexMountHash:     {annotationMountHash, IsHash},
	indexKeyHash:       {annotationKeyHash, IsHash},
	indexNamespaceHash: {annotationNamespaceHash, IsHash},
	indexPluginVersion: {annotationPluginVersion, isPrintable},
}

// AnnotationProblem says how a request's annotations fail.
type AnnotationProblem int

// The problems. Missing and Invalid are "annotations invalid" of the contract,
// Mismatch is "annotations do not match".
const (
	AnnotationMissing AnnotationProblem = iota + 1
	AnnotationInvalid
	AnnotationMismatch
)

// AnnotationError reports the first annotation that fails.
type AnnotationError struct {
	Problem AnnotationProblem
	// Key is the contract's key, or "" for a foreign key that is not a domain
	// name: text from a request is never repeated.
	Key string
}

func (e *AnnotationError) Error() string {
	if e.Key == "" {
		return "annotations: a key is not a fully qualified domain name"
	}
	what := map[AnnotationProblem]string{
		AnnotationMissing:  "is missing",
		AnnotationInvalid:  "is malformed",
		AnnotationMismatch: "does not match the key",
	}[e.Problem]
	return fmt.Sprintf("annotations: %s %s", e.Key, what)
}

// expectedAnnotations are the values that a request for this binding must
// carry. An empty string means that the key must be absent, or, for the plugin
// version, that any well-formed value will do.
func (s Scope) expectedAnnotations(b *Binding) (want [annotationCount]string) {
	want[indexAADVersion] = aadVersion
	want[indexProvider] = providerMarker
	want[indexKeyIDHash] = b.keyIDHash
	want[indexKeyVersion] = strconv.Itoa(b.version)
	want[indexMountHash] = Hash(s.TransitMountID)
	want[indexKeyHash] = Hash(s.KeyLineageID)
	if s.OpenBaoNamespace != "" {
		want[indexNamespaceHash] = Hash(s.OpenBaoNamespace)
	}
	return want
}

// Annotations returns the annotations of an Encrypt response: a new map whose
// values the caller owns. pluginVersion is the version of the running binary;
// it must satisfy ValidPluginVersion.
func (b *Binding) Annotations(pluginVersion string) map[string][]byte {
	m := make(map[string][]byte, annotationCount)
	for i, a := range annotations {
		if v := b.annotations[i]; v != "" {
			m[a.key] = []byte(v)
		}
	}
	m[annotationPluginVersion] = []byte(pluginVersion)
	return m
}

// CheckAnnotations compares a request's annotations with the binding that its
// key_id names. It returns nil or an *AnnotationError: first for keys that are
// not domain names, then for missing and malformed ones, and only then for
// values that differ (design: identity, order of checks, steps 4 and 5).
func (b *Binding) CheckAnnotations(got map[string][]byte) error {
	if b.matches(got) {
		return nil
	}
	return b.problem(got)
}

// matches reports whether got is what this provider writes: exactly the
// contract's annotations with the expected values. Nearly every request is; the
// others are told apart by problem, which may still accept them.
func (b *Binding) matches(got map[string][]byte) bool {
	found := 0
	for i, a := range annotations {
		value, present := got[a.key]
		want := b.annotations[i]
		switch {
		case !present && b.requires(i):
			return false
		case !present:
			continue
		case i == indexPluginVersion:
			if !isPrintable(string(value)) {
				return false
			}
		case want == "" || string(value) != want:
			return false
		}
		found++
	}
	return found == len(got)
}

// problem makes every check of the contract in its order.
func (b *Binding) problem(got map[string][]byte) error {
	for key := range got {
		if !IsDomainName(key) {
			return &AnnotationError{Problem: AnnotationInvalid}
		}
	}
	for i, a := range annotations {
		value, present := got[a.key]
		switch {
		case !present && b.requires(i):
			return &AnnotationError{AnnotationMissing, a.key}
		case present && !a.wellFormed(string(value)):
			return &AnnotationError{AnnotationInvalid, a.key}
		}
	}
	for i, a := range annotations {
		value, present := got[a.key]
		if i == indexPluginVersion || !present {
			continue
		}
		if string(value) != b.annotations[i] {
			return &AnnotationError{AnnotationMismatch, a.key}
		}
	}
	return nil
}

// requires reports whether annotation i must be present: all must, but for the
// namespace's when none is configured.
func (b *Binding) requires(i int) bool {
	return i != indexNamespaceHash || b.annotations[i] != ""
}

// maxPrintable bounds the free-form values: a provider marker, a version.
const maxPrintable = 128

// ValidPluginVersion reports whether v may stand in the plugin-version
// annotation: 1 to 128 printable ASCII characters, no space.
func ValidPluginVersion(v string) bool { return isPrintable(v) }

func isPrintable(v string) bool {
	if v == "" || len(v) > maxPrintable {
		return false
	}
	for i := range len(v) {
		if v[i] <= ' ' || v[i] > '~' {
			return false
		}
	}
	return true
}

// isVersion accepts a positive decimal without leading zeros that fits an int.
func isVersion(v string) bool {
	n, err := strconv.Atoi(v)
	return err == nil && n > 0 && strconv.Itoa(n) == v
}

// IsDomainName reports whether the API server accepts key as an annotation key:
// at least two DNS-1123 labels, lower case, at most 253 characters, with or
// without a final dot.
func IsDomainName(key string) bool {
	if n := len(key); n > 0 && key[n-1] == '.' {
		key = key[:n-1]
	}
	if key == "" || len(key) > 253 {
		return false
	}
	labels, start := 0, 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && key[i] != '.' {
			continue
		}
		if !isLabel(key[start:i]) {
			return false
		}
		labels++
		start = i + 1
	}
	return labels >= 2
}

func isLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
