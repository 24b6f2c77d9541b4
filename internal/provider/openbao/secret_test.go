package openbao

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretNeverPrints(t *testing.T) {
	secret := NewSecret(canaryToken)
	if secret.Reveal() != canaryToken || secret.IsZero() {
		t.Fatalf("Reveal is %q", secret.Reveal())
	}
	type holder struct {
		Public Secret
		hidden Secret
		list   []Secret
	}
	h := holder{secret, secret, []Secret{secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%10.3s"} {
		for _, v := range []any{secret, &secret, h, &h, []Secret{secret}, map[string]Secret{"k": secret}} {
			fmt.Fprintf(&out, verb, v)
		}
	}
	for _, v := range []any{secret, h, map[string]Secret{"k": secret}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "secret", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "secret", v)
	}
	if b, err := secret.MarshalText(); err != nil || string(b) != redacted {
		t.Errorf("MarshalText: %q, %v", b, err)
	}
	if fmt.Sprint(secret) != redacted || secret.GoString() != redacted || secret.String() != redacted {
		t.Errorf("it prints as %q", fmt.Sprint(secret))
	}
	hex := fmt.Sprintf("%x", canaryToken)
	if text := out.String(); strings.Contains(text, "CANARY") || strings.Contains(text, hex) {
		t.Errorf("the secret is in %s", text)
	}
}

func TestSecretIdentity(t *testing.T) {
	a, b := NewSecret("same"), NewSecret("same")
	if a == b {
		t.Error("two tokens of one value are the same token")
	}
	if c := a; c != a {
		t.Error("a copy is another token")
	}
	if s := NewSecret(""); !s.IsZero() || s != (Secret{}) || s.Reveal() != "" {
		t.Error("an empty secret is not the zero Secret")
	}
}
