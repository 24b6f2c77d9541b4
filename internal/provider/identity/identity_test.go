package identity

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
)

func testScope() Scope {
	return Scope{
		ProviderName: "provider", ClusterID: "cluster", OpenBaoInstanceID: "instance",
		TransitMountID: "mount", KeyLineageID: "lineage",
	}
}

func testBinding(t *testing.T, s Scope) *Binding {
	t.Helper()
	b, err := s.Bind(7, 1715803200)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// setters reach every field of a scope by the name that its errors use.
var setters = map[string]func(*Scope, string){
	"provider name":       func(s *Scope, v string) { s.ProviderName = v },
	"cluster id":          func(s *Scope, v string) { s.ClusterID = v },
	"OpenBao instance id": func(s *Scope, v string) { s.OpenBaoInstanceID = v },
	"OpenBao namespace":   func(s *Scope, v string) { s.OpenBaoNamespace = v },
	"Transit mount id":    func(s *Scope, v string) { s.TransitMountID = v },
	"key lineage id":      func(s *Scope, v string) { s.KeyLineageID = v },
}

func TestScopeRefusesWhatWouldNotBeInjective(t *testing.T) {
	values := map[string]string{
		"contains a control character":  "a\x00b",
		"is surrounded by white space":  " a",
		"is not valid UTF-8":            "a\xff",
		"contains a control character ": "a\u0085b", // C1
		"contains a control character.": "a\x7f",
		"is surrounded by white space ": "a\u00a0",
		"contains a control character,": "line\n",
	}
	for name, set := range setters {
		for problem, value := range values {
			s := testScope()
			set(&s, value)
			want := "identity: " + name + " " + strings.TrimRight(problem, " .,")
			if err := s.Validate(); err == nil || err.Error() != want {
				t.Errorf("%q as %s: error %v, want %q", value, name, err, want)
			}
			if _, err := s.Bind(1, 1); err == nil {
				t.Errorf("%q as %s: Bind accepts it", value, name)
			}
		}
		s := testScope()
		set(&s, "")
		if err := s.Validate(); (err == nil) != (name == "OpenBao namespace") {
			t.Errorf("empty %s: error %v", name, err)
		}
	}
	for _, c := range []struct {
		version int
		created int64
	}{{0, 1}, {-1, 1}, {1, 0}, {1, -1}} {
		if _, err := testScope().Bind(c.version, c.created); err == nil {
			t.Errorf("Bind(%d, %d) succeeds", c.version, c.created)
		}
	}
}

// fieldGen draws values from a small alphabet, so that values of neighbouring
// fields often run into each other when they are joined without a separator.
var fieldGen = rapid.StringMatching(`[ab.1]{1,3}`)

func scopeGen(t *rapid.T) Scope {
	return Scope{
		ProviderName:      fieldGen.Draw(t, "provider"),
		ClusterID:         fieldGen.Draw(t, "cluster"),
		OpenBaoInstanceID: fieldGen.Draw(t, "instance"),
		OpenBaoNamespace:  rapid.OneOf(rapid.Just(""), fieldGen).Draw(t, "namespace"),
		TransitMountID:    fieldGen.Draw(t, "mount"),
		KeyLineageID:      fieldGen.Draw(t, "lineage"),
	}
}

func TestDerivationsAreInjective(t *testing.T) {
	type inputs struct {
		Scope
		version       int
		created       int64
		mount, keyArg string
	}
	draw := func(t *rapid.T) inputs {
		return inputs{scopeGen(t), rapid.IntRange(1, 12).Draw(t, "version"), rapid.Int64Range(1, 120).Draw(t, "created"),
			fieldGen.Draw(t, "path"), fieldGen.Draw(t, "key")}
	}
	// A map over the whole run compares every pair that was ever drawn.
	seen := map[string]string{}
	record := func(t *rapid.T, output, input string) {
		if old, ok := seen[output]; ok && old != input {
			t.Fatalf("%s\nand\n%s\nboth give %s", old, input, output)
		}
		seen[output] = input
	}
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		b, err := in.Bind(in.version, in.created)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%q %d %d", in.Scope, in.version, in.created)
		record(t, b.KeyID(), id)
		record(t, string(b.AssociatedData()), id)
		record(t, in.Fingerprint(in.mount, in.keyArg), fmt.Sprintf("%q %q %q", in.Scope, in.mount, in.keyArg))
		if err := ParseKeyID(b.KeyID()); err != nil {
			t.Fatalf("a derived key_id is malformed: %s", b.KeyID())
		}
		if err := b.CheckAnnotations(b.Annotations("v1")); err != nil {
			t.Fatalf("own annotations refused: %v", err)
		}
		if !IsFingerprint(in.Fingerprint(in.mount, in.keyArg)) {
			t.Fatal("a derived fingerprint is malformed")
		}
	})
}

// TestMovingABoundaryChangesTheKeyID shifts one character between neighbours.
func TestMovingABoundaryChangesTheKeyID(t *testing.T) {
	a, b := testScope(), testScope()
	a.ProviderName, a.ClusterID = "ab", "c"
	b.ProviderName, b.ClusterID = "a", "bc"
	if a.KeyID(1, 1) == b.KeyID(1, 1) {
		t.Error("the boundary between two fields does not count")
	}
	a, b = testScope(), testScope()
	a.OpenBaoNamespace, a.TransitMountID = "n", "m"
	b.OpenBaoNamespace, b.TransitMountID = "", "m"
	if a.KeyID(1, 1) == b.KeyID(1, 1) {
		t.Error("the namespace does not count")
	}
	if s := testScope(); s.KeyID(1, 11) == s.KeyID(11, 1) || s.KeyID(1, 11) == s.KeyID(111, 1) {
		t.Error("version and creation time run into each other")
	}
}

func TestParseKeyID(t *testing.T) {
	good := "obk2.ig7zS9_yvQrdlcvWgJUhA5q_fQYupc5jRX5MzhAMQSk"
	if err := ParseKeyID(good); err != nil {
		t.Errorf("%s: %v", good, err)
	}
	for name, bad := range map[string]string{
		"empty":                   "",
		"prefix only":             "obk2.",
		"other prefix":            "obk1." + good[5:],
		"upper-case prefix":       "OBK2." + good[5:],
		"no prefix":               good[5:],
		"42 characters":           good[:len(good)-1],
		"44 characters":           good + "A",
		"padded":                  good + "=",
		"trailing bits":           good[:len(good)-1] + "l", // same 32 bytes when read leniently
		"standard base64 letters": strings.Replace(good, "_", "/", 1),
		"line break inside":       good[:20] + "\n" + good[21:],
		"white space after":       good[:len(good)-1] + " ",
		"NUL inside":              good[:20] + "\x00" + good[21:],
	} {
		if err := ParseKeyID(bad); !errors.Is(err, ErrMalformedKeyID) {
			t.Errorf("%s: error %v, want ErrMalformedKeyID", name, err)
		}
	}
}

func TestCheckAnnotations(t *testing.T) {
	const foreign = "some.example.org"
	plain, other := testScope(), testScope()
	withNS := testScope()
	withNS.OpenBaoNamespace = "team/a"
	other.ClusterID = "another"

	set := func(key, value string) func(map[string][]byte) {
		return func(m map[string][]byte) { m[key] = []byte(value) }
	}
	drop := func(key string) func(map[string][]byte) {
		return func(m map[string][]byte) { delete(m, key) }
	}
	cases := []struct {
		name    string
		scope   Scope
		edit    func(map[string][]byte)
		problem AnnotationProblem // 0: accepted
		key     string
	}{
		{"as encrypted", plain, func(map[string][]byte) {}, 0, ""},
		{"as encrypted, with namespace", withNS, func(map[string][]byte) {}, 0, ""},
		{"further domain name", plain, set(foreign, "\xff anything"), 0, ""},
		{"further key, no domain", plain, set("nodots", "x"), AnnotationInvalid, ""},
		{"further key, upper case", plain, set("A.example.org", "x"), AnnotationInvalid, ""},
		{"empty key", plain, set("", "x"), AnnotationInvalid, ""},
		{"other plugin version", plain, set(annotationPluginVersion, "v9.9.9"), 0, ""},
		{"no plugin version", plain, drop(annotationPluginVersion), AnnotationMissing, annotationPluginVersion},
		{"empty plugin version", plain, set(annotationPluginVersion, ""), AnnotationInvalid, annotationPluginVersion},
		{"long plugin version", plain, set(annotationPluginVersion, strings.Repeat("v", 129)), AnnotationInvalid, annotationPluginVersion},
		{"longest plugin version", plain, set(annotationPluginVersion, strings.Repeat("v", 128)), 0, ""},
		{"no AAD version", plain, drop(annotationAADVersion), AnnotationMissing, annotationAADVersion},
		{"unsupported AAD version", plain, set(annotationAADVersion, "v2"), AnnotationInvalid, annotationAADVersion},
		{"no provider", plain, drop(annotationProvider), AnnotationMissing, annotationProvider},
		{"other provider", plain, set(annotationProvider, "vault-transit"), AnnotationMismatch, annotationProvider},
		{"no key_id hash", plain, drop(annotationKeyIDHash), AnnotationMissing, annotationKeyIDHash},
		{"malformed key_id hash", plain, set(annotationKeyIDHash, "x"), AnnotationInvalid, annotationKeyIDHash},
		{"other key_id hash", plain, set(annotationKeyIDHash, Hash("x")), AnnotationMismatch, annotationKeyIDHash},
		{"no version", plain, drop(annotationKeyVersion), AnnotationMissing, annotationKeyVersion},
		{"version zero", plain, set(annotationKeyVersion, "0"), AnnotationInvalid, annotationKeyVersion},
		{"version with leading zero", plain, set(annotationKeyVersion, "07"), AnnotationInvalid, annotationKeyVersion},
		{"version with sign", plain, set(annotationKeyVersion, "+7"), AnnotationInvalid, annotationKeyVersion},
		{"version over int64", plain, set(annotationKeyVersion, "9223372036854775808"), AnnotationInvalid, annotationKeyVersion},
		{"other version", plain, set(annotationKeyVersion, "8"), AnnotationMismatch, annotationKeyVersion},
		{"no mount hash", plain, drop(annotationMountHash), AnnotationMissing, annotationMountHash},
		{"other mount hash", plain, set(annotationMountHash, Hash("m2")), AnnotationMismatch, annotationMountHash},
		{"no key hash", plain, drop(annotationKeyHash), AnnotationMissing, annotationKeyHash},
		{"other key hash", plain, set(annotationKeyHash, Hash("k2")), AnnotationMismatch, annotationKeyHash},
		{"no namespace hash, configured", withNS, drop(annotationNamespaceHash), AnnotationMissing, annotationNamespaceHash},
		{"other namespace hash", withNS, set(annotationNamespaceHash, Hash("team/b")), AnnotationMismatch, annotationNamespaceHash},
		{"namespace hash, none configured", plain, set(annotationNamespaceHash, Hash("team/a")), AnnotationMismatch, annotationNamespaceHash},
		{"malformed namespace hash, none configured", plain, set(annotationNamespaceHash, "x"), AnnotationInvalid, annotationNamespaceHash},
		{"empty namespace hash, none configured", plain, set(annotationNamespaceHash, ""), AnnotationInvalid, annotationNamespaceHash},
		{"malformed wins over mismatch", plain, func(m map[string][]byte) {
			m[annotationProvider] = []byte("other")
			m[annotationKeyHash] = []byte("x")
		}, AnnotationInvalid, annotationKeyHash},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := testBinding(t, c.scope)
			m := b.Annotations("v1.0.0")
			c.edit(m)
			err := b.CheckAnnotations(m)
			if slow := b.problem(m); (err == nil) != (slow == nil) {
				t.Fatalf("the short way says %v, the long one %v", err, slow)
			}
			if c.problem == 0 {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var ae *AnnotationError
			if !errors.As(err, &ae) || ae.Problem != c.problem || ae.Key != c.key {
				t.Fatalf("error %v, want problem %d of %q", err, c.problem, c.key)
			}
		})
	}
	if err := testBinding(t, plain).CheckAnnotations(testBinding(t, other).Annotations("v1")); err == nil {
		t.Error("another cluster's annotations are accepted")
	}
}

// TestDomainNamesAgreeWithTheAPIServer holds IsDomainName against the rule that
// the API server applies to our responses.
func TestDomainNamesAgreeWithTheAPIServer(t *testing.T) {
	agree := func(key string) bool {
		return IsDomainName(key) == (len(validation.IsFullyQualifiedDomainName(field.NewPath("key"), key)) == 0)
	}
	for _, key := range []string{"", ".", "a", "a.", "a.b", "a.b.", "a.b..", "a..b", ".a.b", "-a.b", "a-.b", "a.b-", "1.2", "A.b", "a_b.c",
		"é.b", "a.b\n", strings.Repeat("a", 63) + ".b", strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 126) + "b", strings.Repeat("a.", 127) + "b",
		strings.Repeat("a.", 127), strings.Repeat("a.", 126) + "bc"} {
		if !agree(key) {
			t.Errorf("%q: IsDomainName = %v, the API server disagrees", key, IsDomainName(key))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if key := rapid.StringMatching(`[a-cA\-._é]{0,12}`).Draw(t, "key"); !agree(key) {
			t.Fatalf("%q: IsDomainName = %v, the API server disagrees", key, IsDomainName(key))
		}
	})
}

func TestAnnotationsAreTheCallersOwn(t *testing.T) {
	b := testBinding(t, testScope())
	m := b.Annotations("v1")
	for key, value := range m {
		for i := range value {
			value[i] = 'x'
		}
		delete(m, key)
	}
	if err := b.CheckAnnotations(b.Annotations("v1")); err != nil {
		t.Errorf("a caller changed the binding: %v", err)
	}
	aad := b.AssociatedData()
	aad[0] = 'x'
	if b.AssociatedData()[0] != '{' {
		t.Error("a caller changed the associated data")
	}
}
