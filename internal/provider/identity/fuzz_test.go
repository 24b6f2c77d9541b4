package identity

import (
	"encoding/base64"
	"testing"
)

func FuzzParseKeyID(f *testing.F) {
	for _, seed := range []string{"", "obk2.", "obk2.ig7zS9_yvQrdlcvWgJUhA5q_fQYupc5jRX5MzhAMQSk", "obk2.ig7zS9_yvQrdlcvWgJUhA5q_fQYupc5jRX5MzhAMQSl",
		"obk1.ig7zS9_yvQrdlcvWgJUhA5q_fQYupc5jRX5MzhAMQSk"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if ParseKeyID(s) != nil {
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(s[len(keyIDPrefix):])
		if err != nil || len(raw) != 32 {
			t.Fatalf("accepted %q, which does not hold 32 bytes", s)
		}
		if again := keyIDPrefix + base64.RawURLEncoding.EncodeToString(raw); again != s {
			t.Fatalf("accepted %q, a second spelling of %q", s, again)
		}
	})
}

func FuzzCheckAnnotations(f *testing.F) {
	f.Add(annotationProvider, []byte(providerMarker))
	f.Add(annotationKeyVersion, []byte("007"))
	f.Add(annotationNamespaceHash, []byte{})
	f.Add("other.example.org", []byte("\xff\x00"))
	f.Add("", []byte("x"))
	b, err := testScope().Bind(7, 1715803200)
	if err != nil {
		f.Fatal(err)
	}
	contract := map[string]bool{}
	for _, a := range annotations {
		contract[a.key] = true
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		m := b.Annotations("v1")
		before, had := m[key]
		m[key] = value
		err := b.CheckAnnotations(m)
		if slow := b.problem(m); (err == nil) != (slow == nil) {
			t.Fatalf("%q = %q: the short way says %v, the long one %v", key, value, err, slow)
		}
		// One annotation was replaced or added: it is accepted only when it is a
		// foreign domain name, the plugin version, or what it was before.
		allowed := !contract[key] && IsDomainName(key) ||
			key == annotationPluginVersion && isPrintable(string(value)) ||
			had && string(before) == string(value)
		if (err == nil) != allowed {
			t.Fatalf("%q = %q: error %v, allowed %v", key, value, err, allowed)
		}
	})
}
