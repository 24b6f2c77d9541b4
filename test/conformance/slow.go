package conformance

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// wrongAnswers puts answers in OpenBao's place that the real one never gives.
func wrongAnswers(t *testing.T, s *subject) {
	plaintext := plaintextOf(32)
	r := s.encrypt(t, plaintext)
	form := ciphertextForm.FindSubmatch(r.Ciphertext)
	if form == nil {
		t.Fatal("the ciphertext is not of Transit's form")
	}
	prefix := "vault:v" + string(form[1]) + ":"
	ciphertext := func(text string) string { return fmt.Sprintf(`{"data":{"ciphertext":%q}}`, text) }
	sized := func(size int) string { return ciphertext(prefix + strings.Repeat("A", size-len(prefix))) }
	decrypted := func(size int) string {
		return fmt.Sprintf(`{"data":{"plaintext":%q}}`, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("p"), size)))
	}
	large := `{"data":{"filler":"` + strings.Repeat("A", 5<<20) + `"}}`
	for _, c := range []struct {
		name, part string
		status     int
		body       string
		want       fault.Cause
		size       int // of the answer, where it is accepted
	}{
		{"ciphertext of 1023 bytes", pathEncrypt, http.StatusOK, sized(1023), fault.None, 1023},
		{"ciphertext of 1024 bytes", pathEncrypt, http.StatusOK, sized(1024), fault.ResponseOverLimit, 0},
		// This is how Transit words a missing key; a login with the least privilege is denied instead, because it may not create one.
		{"no key", pathEncrypt, http.StatusBadRequest, `{"errors":["encryption key not found"]}`, fault.KeyMissing, 0},
		{"ciphertext of another version", pathEncrypt, http.StatusOK, ciphertext("vault:v" + string(form[1]) + "7:AAAA"), fault.AnswerInvalid, 0},
		{"ciphertext without a prefix", pathEncrypt, http.StatusOK, ciphertext("AAAA"), fault.AnswerInvalid, 0},
		{"empty ciphertext", pathEncrypt, http.StatusOK, ciphertext(""), fault.AnswerInvalid, 0},
		{"the prefix only", pathEncrypt, http.StatusOK, ciphertext(prefix), fault.AnswerInvalid, 0},
		{"no ciphertext", pathEncrypt, http.StatusOK, `{"data":{}}`, fault.AnswerInvalid, 0},
		{"no JSON", pathEncrypt, http.StatusOK, `<html>`, fault.AnswerInvalid, 0},
		{"5 MiB", pathEncrypt, http.StatusOK, large, fault.Unavailable, 0},
		{"an error of 5 MiB", pathEncrypt, http.StatusBadRequest, large, fault.Unavailable, 0},
		{"a redirect", pathEncrypt, http.StatusTemporaryRedirect, `{}`, fault.Unavailable, 0},
		{"an internal error", pathEncrypt, http.StatusInternalServerError, `{"errors":["internal error"]}`, fault.Unavailable, 0},
		{"a bad gateway", pathEncrypt, http.StatusBadGateway, `<html>`, fault.Unavailable, 0},
		{"sealed", pathEncrypt, http.StatusServiceUnavailable, `{"errors":["Vault is sealed"]}`, fault.Sealed, 0},
		{"too many requests", pathEncrypt, http.StatusTooManyRequests, `{"errors":["quota"]}`, fault.RateLimited, 0},
		{"a refusal of unknown words", pathEncrypt, http.StatusBadRequest, `{"errors":["something new"]}`, fault.RequestRefused, 0},

		{"plaintext that fills a message", pathDecrypt, http.StatusOK, decrypted(maxMessage - 4), fault.None, maxMessage - 4},
		{"plaintext of a byte more", pathDecrypt, http.StatusOK, decrypted(maxMessage - 3), fault.ResponseOverLimit, 0},
		{"empty plaintext", pathDecrypt, http.StatusOK, decrypted(0), fault.AnswerInvalid, 0},
		{"plaintext that is not base64", pathDecrypt, http.StatusOK, `{"data":{"plaintext":"***"}}`, fault.AnswerInvalid, 0},
		{"decrypt, 5 MiB", pathDecrypt, http.StatusOK, large, fault.Unavailable, 0},
		{"decrypt, an internal error", pathDecrypt, http.StatusInternalServerError, `{}`, fault.Unavailable, 0},
		{"decrypt, a refusal of unknown words", pathDecrypt, http.StatusBadRequest, `{"errors":["something new"]}`, fault.RequestRefused, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Answer(c.part, 1, c.status, c.body)
			var size int
			var err error
			if c.part == pathEncrypt {
				var e *kmsapi.EncryptResponse
				e, err = s.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid()})
				size = len(e.GetCiphertext())
			} else {
				var d *kmsapi.DecryptResponse
				d, err = s.kms.Decrypt(limited(t), decryptRequest(r))
				size = len(d.GetPlaintext())
			}
			switch {
			case c.want != fault.None:
				s.refused(t, err, c.want)
			case err != nil || size != c.size:
				t.Errorf("answered with %d bytes (error %v), want %d", size, err, c.size)
			}
		})
	}
	s.decrypts(t, decryptRequest(r), plaintext)
}

func caps(t *testing.T, s *subject) {
	const maxEncrypt, maxDecrypt = 2, 3
	f := s.freshSubject(t, Settings{MaxEncrypt: maxEncrypt, MaxDecrypt: maxDecrypt, OpenBaoTimeout: 40 * time.Second})
	plaintext := plaintextOf(32)
	r := f.encrypt(t, plaintext)
	for _, c := range []struct {
		name, part string
		cap        int
		call       func() error
	}{
		{"Encrypt", pathEncrypt, maxEncrypt, func() error {
			_, err := f.kms.Encrypt(limited(t), &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid()})
			return err
		}},
		{"Decrypt", pathDecrypt, maxDecrypt, func() error {
			_, err := f.kms.Decrypt(limited(t), decryptRequest(r))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			held := f.Hold(c.part, -1)
			defer held.Release()
			var active sync.WaitGroup
			for range c.cap {
				active.Go(func() {
					if err := c.call(); err != nil {
						t.Errorf("a call within the cap: %v", err)
					}
				})
			}
			if err := held.Await(limited(t), c.cap); err != nil {
				t.Fatal(err)
			}
			// None of these waits: a queue would hold them until the release.
			for range 20 {
				if f.refused(t, c.call(), fault.ConcurrencyLimited); t.Failed() {
					break
				}
			}
			f.status(t)
			if c.part == pathEncrypt {
				f.decrypts(t, decryptRequest(r), plaintext)
			}
			held.Release()
			active.Wait()
			if err := c.call(); err != nil {
				t.Errorf("after the release: %v", err)
			}
		})
	}
}

func slowOpenBao(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{OpenBaoTimeout: 500 * time.Millisecond})
	plaintext := plaintextOf(32)
	r := f.encrypt(t, plaintext)
	held := f.Hold("/v1/", -1)
	defer held.Release()
	f.refusesEncrypt(t, fault.TimedOut)
	_, err := f.kms.Decrypt(limited(t), decryptRequest(r))
	f.refused(t, err, fault.TimedOut)
	unknown := decryptRequest(r)
	unknown.KeyId = unknownID
	_, err = f.kms.Decrypt(limited(t), unknown)
	f.refused(t, err, fault.DiscoveryFailed)
	held.Release()
	f.decrypts(t, decryptRequest(r), plaintext)
}
