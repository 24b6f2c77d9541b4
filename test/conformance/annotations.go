package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// The annotations of the wire contract (design: identity), written down again: they are what etcd holds.
const (
	annotationProvider  = "provider.kms.openbao.org"
	annotationKeyID     = "key-id-hash.kms.openbao.org"
	annotationVersion   = "transit-key-version.kms.openbao.org"
	annotationMount     = "transit-mount-hash.kms.openbao.org"
	annotationKey       = "transit-key-hash.kms.openbao.org"
	annotationNamespace = "openbao-namespace-hash.kms.openbao.org"
	annotationPlugin    = "plugin-version.kms.openbao.org"
	annotationAAD       = "aad-version.kms.openbao.org"
)

var required = []string{
	annotationProvider, annotationKeyID, annotationVersion, annotationMount, annotationKey, annotationPlugin, annotationAAD,
}

// hash is h(x) of the wire contract.
func hash(x string) string {
	sum := sha256.Sum256([]byte(x))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

var (
	keyIDForm      = regexp.MustCompile(`^obk2\.[A-Za-z0-9_-]{43}$`)
	hashForm       = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	ciphertextForm = regexp.MustCompile(`^vault:v([1-9][0-9]*):[A-Za-z0-9+/]+=*$`)
	printableForm  = regexp.MustCompile(`^[!-~]{1,128}$`)
)

func exactAnnotations(t *testing.T, s *subject) {
	r := s.encrypt(t, plaintextOf(32))
	if !keyIDForm.MatchString(r.KeyId) {
		t.Errorf("key_id %q is not of the form of the wire contract", r.KeyId)
	}
	form := ciphertextForm.FindSubmatch(r.Ciphertext)
	if form == nil {
		t.Fatal("the ciphertext is not of Transit's form")
	}
	for key, want := range map[string]string{
		annotationProvider: "openbao-transit", annotationKeyID: hash(r.KeyId), annotationVersion: string(form[1]), annotationAAD: "v1",
	} {
		if got := string(r.Annotations[key]); got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]*regexp.Regexp{annotationMount: hashForm, annotationKey: hashForm, annotationPlugin: printableForm} {
		if got := r.Annotations[key]; !want.Match(got) {
			t.Errorf("annotation %s is %q, want the form %v", key, got, want)
		}
	}
	keys := slices.Sorted(maps.Keys(r.Annotations))
	allowed := slices.Sorted(slices.Values(required))
	if _, ok := r.Annotations[annotationNamespace]; ok {
		allowed = slices.Sorted(slices.Values(append(allowed, annotationNamespace)))
	}
	if !slices.Equal(keys, allowed) {
		t.Errorf("the annotations are %q, want exactly %q", keys, allowed)
	}
}

// annotationCase changes one annotation of a good request.
type annotationCase struct {
	name, key string
	// value is what it becomes; nil takes it away.
	value []byte
	want  fault.Cause
}

func annotationCases(r *kmsapi.EncryptResponse) []annotationCase {
	other := []byte(hash("something else"))
	cases := []annotationCase{
		{"another provider", annotationProvider, []byte("somebody-else"), fault.AnnotationsMismatch},
		{"another key_id", annotationKeyID, other, fault.AnnotationsMismatch},
		{"another version", annotationVersion, append(r.Annotations[annotationVersion], '0'), fault.AnnotationsMismatch},
		{"another mount", annotationMount, other, fault.AnnotationsMismatch},
		{"another key", annotationKey, other, fault.AnnotationsMismatch},
		{"another namespace", annotationNamespace, other, fault.AnnotationsMismatch},
		{"another plugin version is nobody's concern", annotationPlugin, []byte("v0.0.1"), fault.None},
		{"another aad-version", annotationAAD, []byte("v2"), fault.AnnotationsInvalid},

		{"version with a zero in front", annotationVersion, append([]byte("0"), r.Annotations[annotationVersion]...), fault.AnnotationsInvalid},
		{"version with a sign", annotationVersion, append([]byte("+"), r.Annotations[annotationVersion]...), fault.AnnotationsInvalid},
		{"version zero", annotationVersion, []byte("0"), fault.AnnotationsInvalid},
		{"version beyond an integer", annotationVersion, []byte("99999999999999999999"), fault.AnnotationsInvalid},
		{"version in words", annotationVersion, []byte("one"), fault.AnnotationsInvalid},
		{"plugin version with a space", annotationPlugin, []byte("v1 0"), fault.AnnotationsInvalid},
		{"provider with a line break", annotationProvider, []byte("openbao-transit\n"), fault.AnnotationsInvalid},

		{"another's annotation", "note.example.com", []byte("anything"), fault.None},
		{"another's empty annotation", "note.example.com", []byte(""), fault.None},
		{"key of one label", "note", []byte("x"), fault.AnnotationsInvalid},
		{"key in capitals", "Note.example.com", []byte("x"), fault.AnnotationsInvalid},
		{"key with an underscore", "my_note.example.com", []byte("x"), fault.AnnotationsInvalid},
		{"key with an empty label", "note..example.com", []byte("x"), fault.AnnotationsInvalid},
		{"key that begins with a hyphen", "-note.example.com", []byte("x"), fault.AnnotationsInvalid},
		{"key with a wildcard", "*.example.com", []byte("x"), fault.AnnotationsInvalid},
		{"key with a slash", "example.com/note", []byte("x"), fault.AnnotationsInvalid},
		{"key with a label of 64 letters", strings.Repeat("a", 64) + ".example.com", []byte("x"), fault.AnnotationsInvalid},
		{"empty key", "", []byte("x"), fault.AnnotationsInvalid},
	}
	for _, key := range required {
		cases = append(cases, annotationCase{"without " + key, key, nil, fault.AnnotationsMissing},
			annotationCase{"empty " + key, key, []byte{}, fault.AnnotationsInvalid})
	}
	// Forms that are not base64url of 32 bytes without padding.
	good := hash("x")
	for _, key := range []string{annotationKeyID, annotationMount, annotationKey} {
		for name, value := range map[string]string{
			"short": good[:42], "long": good + "A", "padded": good + "=", "standard base64": strings.Repeat("/", 43), "trailing bits": good[:42] + "B",
		} {
			cases = append(cases, annotationCase{key + ", " + name, key, []byte(value), fault.AnnotationsInvalid})
		}
	}
	return cases
}

func refusedAnnotations(t *testing.T, s *subject) {
	plaintext := plaintextOf(32)
	r := s.encrypt(t, plaintext)
	for _, c := range annotationCases(r) {
		t.Run(c.name, func(t *testing.T) {
			request := decryptRequest(r)
			request.Annotations[c.key] = bytes.Clone(c.value)
			if c.value == nil {
				delete(request.Annotations, c.key)
			}
			s.decryptsAs(t, request, plaintext, c.want, c.want == fault.None)
		})
	}
	t.Run("none at all", func(t *testing.T) {
		request := decryptRequest(r)
		request.Annotations = nil
		s.decryptsAs(t, request, nil, fault.AnnotationsMissing, false)
	})
}

func ciphertextForms(t *testing.T, s *subject) {
	r := s.encrypt(t, plaintextOf(32))
	form := ciphertextForm.FindSubmatchIndex(r.Ciphertext)
	if form == nil {
		t.Fatal("the ciphertext is not of Transit's form")
	}
	version, data := string(r.Ciphertext[form[2]:form[3]]), string(r.Ciphertext[form[3]+1:])
	for _, c := range []struct {
		name, ciphertext string
		want             fault.Cause
	}{
		{"of another version", "vault:v" + version + "0:" + data, fault.AnnotationsMismatch},
		{"of version zero", "vault:v0:" + data, fault.FieldInvalid},
		{"of a version with a zero in front", "vault:v0" + version + ":" + data, fault.FieldInvalid},
		{"of no version", "vault:v:" + data, fault.FieldInvalid},
		{"of a version in letters", "vault:vx:" + data, fault.FieldInvalid},
		{"without the prefix", data, fault.FieldInvalid},
		{"with another prefix", "VAULT:v" + version + ":" + data, fault.FieldInvalid},
		{"with something before", " vault:v" + version + ":" + data, fault.FieldInvalid},
		{"the prefix only", "vault:v" + version + ":", fault.FieldInvalid},
		{"not base64", "vault:v" + version + ":" + strings.Repeat("*", len(data)), fault.CiphertextRefused},
		{"with quotes", "vault:v" + version + `:","context":"` + data, fault.CiphertextRefused},
		{"binary", "vault:v" + version + ":\x00\xff\x01", fault.CiphertextRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := decryptRequest(r)
			request.Ciphertext = []byte(c.ciphertext)
			s.decryptsAs(t, request, nil, c.want, false)
		})
	}
}
