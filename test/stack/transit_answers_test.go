package stack_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// TestTransitAsTheDesignSaysItAnswers looks at one server from all sides that a provider meets.
func TestTransitAsTheDesignSaysItAnswers(t *testing.T) {
	t.Parallel()
	s := stacktest.Transit(t, stack.TransitOptions{})
	c, _ := login(t, s)

	t.Run("associated data is needed to decrypt", func(t *testing.T) {
		ciphertext, err := encrypt(t, c, s, "seed", "context")
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := decrypt(t, c, s, ciphertext, "context"); err != nil || plain != "seed" {
			t.Errorf("decrypt: %q, %v", plain, err)
		}
		for _, aad := range []string{"other", ""} {
			_, err := decrypt(t, c, s, ciphertext, aad)
			wantStatus(t, "decrypt with associated data "+aad, err, http.StatusBadRequest)
		}
	})

	t.Run("the key has the profile", func(t *testing.T) {
		info, err := s.ReadKey(t.Context(), s.Key())
		if err != nil {
			t.Fatal(err)
		}
		if info.Type != "aes256-gcm96" || info.LatestVersion != 1 || info.MinDecryptionVersion != 1 {
			t.Errorf("key = %+v", info)
		}
		for _, field := range []string{"derived", "exportable", "allow_plaintext_backup", "deletion_allowed"} {
			if info.Fields[field] != false {
				t.Errorf("%s = %v, want false", field, info.Fields[field])
			}
		}
		if age := time.Since(info.Created[1]); age < 0 || age > time.Minute {
			t.Errorf("version 1 was created %v ago", age)
		}
	})

	t.Run("the policy allows what a provider needs and nothing else", func(t *testing.T) {
		for _, call := range []struct {
			method, path string
			allowed      bool
		}{
			{http.MethodGet, s.Mount() + "/keys/" + s.Key(), true},
			{http.MethodGet, s.Mount() + "/config/keys", true},
			{http.MethodPost, s.Mount() + "/keys/" + s.Key() + "/rotate", false},
			{http.MethodPost, s.Mount() + "/keys/" + s.Key() + "/config", false},
			{http.MethodGet, s.Mount() + "/keys/other", false},
			{"LIST", s.Mount() + "/keys", false},
			{http.MethodGet, "sys/mounts", false},
		} {
			err := c.Do(t.Context(), call.method, call.path, nil, nil)
			if call.allowed && err != nil {
				t.Errorf("%s %s: %v", call.method, call.path, err)
			}
			if !call.allowed {
				wantStatus(t, call.method+" "+call.path, err, http.StatusForbidden)
			}
		}
	})

	t.Run("upsert is disabled", func(t *testing.T) {
		var config struct {
			Data struct {
				DisableUpsert bool `json:"disable_upsert"`
			} `json:"data"`
		}
		read := func() bool {
			t.Helper()
			if err := c.Do(t.Context(), http.MethodGet, s.Mount()+"/config/keys", nil, &config); err != nil {
				t.Fatal(err)
			}
			return config.Data.DisableUpsert
		}
		if !read() {
			t.Error("disable_upsert is false")
		}
		if err := s.AllowUpsert(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if read() {
			t.Error("disable_upsert is true after AllowUpsert(true)")
		}
		if err := s.AllowUpsert(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("only JWTs that the role accepts log in", func(t *testing.T) {
		foreign, err := stack.NewIssuer()
		if err != nil {
			t.Fatal(err)
		}
		for name, mint := range map[string]func() (string, error){
			"another signer":   func() (string, error) { return foreign.Mint(nil) },
			"another audience": func() (string, error) { return s.MintJWT(map[string]any{"aud": "other"}) },
			"another issuer":   func() (string, error) { return s.MintJWT(map[string]any{"iss": "https://other.test"}) },
			"expired": func() (string, error) {
				return s.MintJWT(map[string]any{"exp": time.Now().Add(-time.Hour).Unix(), "iat": nil, "nbf": nil})
			},
			"no subject": func() (string, error) { return s.MintJWT(map[string]any{"sub": nil}) },
		} {
			jwt, err := mint()
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.LoginJWT(t.Context(), jwt)
			wantStatus(t, name, err, http.StatusBadRequest)
			if err != nil && strings.Contains(err.Error(), jwt) {
				t.Errorf("%s: the error holds the JWT", name)
			}
		}
	})

	t.Run("requests are counted at the server", func(t *testing.T) {
		before, err := s.Requests("/encrypt/" + s.Key())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := encrypt(t, c, s, "seed", "context"); err != nil {
				t.Fatal(err)
			}
		}
		after, err := s.Requests("/encrypt/" + s.Key())
		if err != nil {
			t.Fatal(err)
		}
		if after-before != 3 {
			t.Errorf("%d requests were counted, want 3", after-before)
		}
		all, err := s.Audited(0)
		if err != nil {
			t.Fatal(err)
		}
		last := all[len(all)-1]
		if last.Path != s.Mount()+"/encrypt/"+s.Key() || last.Operation != "update" || last.ID == "" || last.Error != "" {
			t.Errorf("the last request is %+v", last)
		}
		if rest, err := s.Audited(len(all)); err != nil || len(rest) != 0 {
			t.Errorf("beyond the end: %v, %v", rest, err)
		}
		raw, err := os.ReadFile(s.CAFile())
		if err != nil || !bytes.HasPrefix(raw, []byte("-----BEGIN CERTIFICATE-----")) {
			t.Errorf("the CA's file: %.30q, %v", raw, err)
		}
	})

	t.Run("other keys can be of any kind", func(t *testing.T) {
		if err := s.CreateKey(t.Context(), "chacha", map[string]any{"type": "chacha20-poly1305", "exportable": true}); err != nil {
			t.Fatal(err)
		}
		info, err := s.ReadKey(t.Context(), "chacha")
		if err != nil || info.Type != "chacha20-poly1305" || info.Fields["exportable"] != true {
			t.Errorf("key = %+v, %v", info, err)
		}
		if err := s.CreateKey(t.Context(), "signing", map[string]any{"type": "ecdsa-p256"}); err != nil {
			t.Fatal(err)
		}
		info, err = s.ReadKey(t.Context(), "signing")
		if err != nil || time.Since(info.Created[1]) > time.Minute {
			t.Errorf("key = %+v, %v", info, err)
		}
		if err := s.DeleteKey(t.Context(), "chacha"); err != nil {
			t.Fatal(err)
		}
		_, err = s.ReadKey(t.Context(), "chacha")
		wantStatus(t, "reading a deleted key", err, http.StatusNotFound)
	})
}
