package kms

import (
	"context"
	"slices"
	"testing"

	kmsapi "k8s.io/kms/apis/v2"
	"pgregory.net/rapid"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/kms/kmstest"
)

func TestDecryptAnnotations(t *testing.T) {
	const (
		keyIDHash = "key-id-hash.kms.openbao.org"
		version   = "transit-key-version.kms.openbao.org"
		plugin    = "plugin-version.kms.openbao.org"
		aad       = "aad-version.kms.openbao.org"
		provider  = "provider.kms.openbao.org"
		mount     = "transit-mount-hash.kms.openbao.org"
		ns        = "openbao-namespace-hash.kms.openbao.org"
		lineage   = "transit-key-hash.kms.openbao.org"
	)
	set := func(key, value string) func(*kmsapi.DecryptRequest) {
		return func(r *kmsapi.DecryptRequest) { r.Annotations[key] = []byte(value) }
	}
	drop := func(key string) func(*kmsapi.DecryptRequest) {
		return func(r *kmsapi.DecryptRequest) { delete(r.Annotations, key) }
	}
	cases := []struct {
		name   string
		change func(*kmsapi.DecryptRequest)
		cause  fault.Cause
	}{
		{"none at all", func(r *kmsapi.DecryptRequest) { r.Annotations = nil }, fault.AnnotationsMissing},
		{"foreign key", set("note.example.com", "x"), fault.None},
		{"another plugin version", set(plugin, "v9"), fault.None},
		{"key is no domain name", set("note", "x"), fault.AnnotationsInvalid},
		{"key in capitals", set("Note.example.com", "x"), fault.AnnotationsInvalid},
		{"unsupported aad version", set(aad, "v2"), fault.AnnotationsInvalid},
		{"version is no number", set(version, "three"), fault.AnnotationsInvalid},
		{"version with a zero", set(version, "03"), fault.AnnotationsInvalid},
		{"hash is malformed", set(keyIDHash, "short"), fault.AnnotationsInvalid},
		{"plugin version empty", set(plugin, ""), fault.AnnotationsInvalid},
		{"another version", set(version, "4"), fault.AnnotationsMismatch},
		{"another key_id", set(keyIDHash, identity.Hash("x")), fault.AnnotationsMismatch},
		{"another mount", set(mount, identity.Hash("x")), fault.AnnotationsMismatch},
		{"another lineage", set(lineage, identity.Hash("x")), fault.AnnotationsMismatch},
		{"another namespace", set(ns, identity.Hash("x")), fault.AnnotationsMismatch},
		{"another provider", set(provider, "somebody-else"), fault.AnnotationsMismatch},
	}
	for _, key := range []string{keyIDHash, version, plugin, aad, provider, mount, ns, lineage} {
		cases = append(cases, struct {
			name   string
			change func(*kmsapi.DecryptRequest)
			cause  fault.Cause
		}{"without " + key, drop(key), fault.AnnotationsMissing})
	}
	f := start(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := len(f.transit.called())
			req := f.decryptRequest(t, kmstest.Active)
			c.change(req)
			_, err := f.client.Decrypt(context.Background(), req)
			if c.cause == fault.None {
				if err != nil {
					t.Errorf("Decrypt = %v, want an answer", err)
				}
				return
			}
			f.wantError(t, err, "Decrypt", c.cause)
			if len(f.transit.called()) != before {
				t.Error("Transit was called")
			}
		})
	}
}

func TestDecryptCiphertextPrefix(t *testing.T) {
	f := start(t)
	for ciphertext, cause := range map[string]fault.Cause{
		"vault:v3:x":   fault.None,
		"vault:v4:x":   fault.AnnotationsMismatch,
		"vault:v33:x":  fault.AnnotationsMismatch,
		"vault:v2:x":   fault.AnnotationsMismatch,
		"vault:v3:":    fault.FieldInvalid,
		"vault:v3":     fault.FieldInvalid,
		"vault:v03:x":  fault.FieldInvalid,
		"x vault:v3:x": fault.FieldInvalid,
		"nonsense":     fault.FieldInvalid,
	} {
		before := len(f.transit.called())
		req := f.decryptRequest(t, kmstest.Active)
		req.Ciphertext = []byte(ciphertext)
		_, err := f.client.Decrypt(context.Background(), req)
		if cause == fault.None {
			if err != nil {
				t.Errorf("%s: %v", ciphertext, err)
			}
			continue
		}
		f.wantError(t, err, "Decrypt", cause)
		if len(f.transit.called()) != before {
			t.Errorf("%s reached Transit", ciphertext)
		}
	}
}

func TestDecryptKeyIDSyntax(t *testing.T) {
	f := start(t)
	valid := kmstest.Binding(t, f.registry, kmstest.Active).KeyID()
	for _, keyID := range []string{"x", "obk1" + valid[4:], valid + "A", valid[:len(valid)-1], valid + "=", " " + valid, valid[:len(valid)-1] + "_"} {
		req := f.decryptRequest(t, kmstest.Active)
		req.KeyId = keyID
		_, err := f.client.Decrypt(context.Background(), req)
		f.wantError(t, err, "Decrypt", fault.KeyIDMalformed)
	}
	wantCalls(t, f)
	if f.discover.asked() != 0 {
		t.Error("a malformed key_id was looked up in OpenBao")
	}
}

// Invariant 4 and 11: whatever annotations and ciphertext say, Transit is called
// for the snapshot that key_id names, or not at all; and it is called exactly
// when every part of the request belongs to that snapshot.
func TestDecryptNeverStraysFromItsSnapshot(t *testing.T) {
	f := start(t)
	versions := []int{kmstest.Removed, kmstest.Retired, kmstest.Active, kmstest.Pending}
	decryptable := versions[1:]
	rapid.Check(t, func(rt *rapid.T) {
		named := rapid.SampledFrom(versions).Draw(rt, "key_id of")
		labelled := rapid.SampledFrom(versions).Draw(rt, "annotations of")
		sealed := rapid.SampledFrom(versions).Draw(rt, "ciphertext of")
		req := &kmsapi.DecryptRequest{
			Ciphertext:  ciphertextOf(sealed, []byte("seed")),
			KeyId:       kmstest.Binding(t, f.registry, named).KeyID(),
			Annotations: kmstest.Binding(t, f.registry, labelled).Annotations("v1"),
		}
		before := len(f.transit.called())
		got, err := f.service.Decrypt(context.Background(), req)
		calls := f.transit.called()[before:]

		if slices.Contains(decryptable, named) && named == labelled && named == sealed {
			want := map[int]string{kmstest.Retired: "decrypt v2", kmstest.Active: "decrypt v3", kmstest.Pending: "decrypt v4"}[named]
			if err != nil || string(got.Plaintext) != "seed" || len(calls) != 1 || calls[0] != want {
				rt.Fatalf("Decrypt = %q, %v after %v; want seed after %s", got.GetPlaintext(), err, calls, want)
			}
			return
		}
		if err == nil || len(calls) != 0 {
			rt.Fatalf("Decrypt = %q, %v after %v; want a refusal without Transit", got.GetPlaintext(), err, calls)
		}
	})
}
