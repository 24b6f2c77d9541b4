package transit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func TestEncryptAnswers(t *testing.T) {
	full := func(size int) string { return "vault:v3:" + strings.Repeat("A", size-len("vault:v3:")) }
	for name, c := range map[string]struct {
		body  string
		cause fault.Cause
		text  string
	}{
		"shortest":             {`{"data":{"ciphertext":"vault:v3:A"}}`, fault.None, "vault:v3:A"},
		"escaped":              {`{"data":{"ciphertext":"vault:v3:A\u002b\/"}}`, fault.None, "vault:v3:A+/"},
		"longest":              {`{"data":{"ciphertext":"` + full(MaxCiphertext-1) + `"}}`, fault.None, full(MaxCiphertext - 1)},
		"too long":             {`{"data":{"ciphertext":"` + full(MaxCiphertext) + `"}}`, fault.ResponseOverLimit, "has 1024 bytes"},
		"far too long":         {`{"data":{"ciphertext":"` + full(100000) + `"}}`, fault.ResponseOverLimit, "fewer than 1024"},
		"older version":        {`{"data":{"ciphertext":"vault:v2:CANARY"}}`, fault.AnswerInvalid, "does not carry the key version"},
		"newer version":        {`{"data":{"ciphertext":"vault:v4:CANARY"}}`, fault.AnswerInvalid, "does not carry the key version"},
		"version with a digit": {`{"data":{"ciphertext":"vault:v33:CANARY"}}`, fault.AnswerInvalid, "does not carry the key version"},
		"leading zero":         {`{"data":{"ciphertext":"vault:v03:CANARY"}}`, fault.AnswerInvalid, "does not carry the key version"},
		"no prefix":            {`{"data":{"ciphertext":"CANARY"}}`, fault.AnswerInvalid, "does not carry the key version"},
		"other case":           {`{"data":{"ciphertext":"Vault:v3:CANARY"}}`, fault.AnswerInvalid, "does not carry the key version"},
		"only a prefix":        {`{"data":{"ciphertext":"vault:v3:"}}`, fault.AnswerInvalid, "empty or not in Transit's form"},
		"other characters":     {`{"data":{"ciphertext":"vault:v3:CANARY\u0000"}}`, fault.AnswerInvalid, "empty or not in Transit's form"},
		"empty":                {`{"data":{"ciphertext":""}}`, fault.AnswerInvalid, "does not carry the key version"},
		"null":                 {`{"data":{"ciphertext":null}}`, fault.AnswerInvalid, "a field is null"},
		"a number":             {`{"data":{"ciphertext":3}}`, fault.AnswerInvalid, "not the JSON that was expected"},
		"twice":                {`{"data":{"ciphertext":"vault:v3:A","ciphertext":"vault:v3:B"}}`, fault.AnswerInvalid, "a field appears twice"},
		"in two objects":       {`{"data":{"ciphertext":"vault:v3:A"},"data":{"ciphertext":"vault:v3:B"}}`, fault.AnswerInvalid, "a field appears twice"},
		"elsewhere":            {`{"ciphertext":"vault:v3:CANARY"}`, fault.AnswerInvalid, "no field data.ciphertext"},
		"cut":                  {`{"data":{"ciphertext":"vault:v3:CANARY"}`, fault.AnswerInvalid, "not the JSON that was expected"},
		"doubled":              {`{"data":{"ciphertext":"vault:v3:A"}}{"data":{"ciphertext":"vault:v3:A"}}`, fault.AnswerInvalid, "not the JSON that was expected"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answers(t, 200, c.body).Encrypt(t.Context(), three, []byte(canaryPlain))
			if c.cause != fault.None {
				assertFault(t, err, c.cause, c.text)
				if got != nil {
					t.Errorf("there is a ciphertext: %q", got)
				}
			} else if err != nil || string(got) != c.text {
				t.Errorf("%q, %v, want %q", got, err, c.text)
			}
		})
	}
}

func TestDecryptAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		text string // what comes out
		want string // or what the error says
	}{
		"one byte":    {`{"data":{"plaintext":"AA=="}}`, "\x00", ""},
		"bytes":       {`{"data":{"plaintext":"//79"}}`, "\xff\xfe\xfd", ""},
		"escaped":     {`{"data":{"plaintext":"\/\u002f79"}}`, "\xff\xfe\xfd", ""},
		"empty":       {`{"data":{"plaintext":""}}`, "", "is empty"},
		"null":        {`{"data":{"plaintext":null}}`, "", "a field is null"},
		"not base64":  {`{"data":{"plaintext":"CANARY!!"}}`, "", "a field is not base64"},
		"no padding":  {`{"data":{"plaintext":"AA"}}`, "", "a field is not base64"},
		"loose bits":  {`{"data":{"plaintext":"AB=="}}`, "", "a field is not base64"},
		"two":         {`{"data":{"plaintext":"AA==","plaintext":"AQ=="}}`, "", "a field appears twice"},
		"a number":    {`{"data":{"plaintext":1}}`, "", "check what answers"},
		"elsewhere":   {`{"plaintext":"Q0FOQVJZ"}`, "", "no field data.plaintext"},
		"cut":         {`{"data":{"plaintext":"Q0FOQVJZ"`, "", "not the JSON that was expected"},
		"other field": {`{"data":{"ciphertext":"vault:v3:CANARY"}}`, "", "no field data.plaintext"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answers(t, 200, c.body).Decrypt(t.Context(), three, []byte(canaryCipher))
			if c.want != "" {
				assertFault(t, err, fault.AnswerInvalid, c.want)
				if got != nil {
					t.Errorf("there is a plaintext: %q", got)
				}
			} else if err != nil || string(got) != c.text {
				t.Errorf("%q, %v, want %q", got, err, c.text)
			}
		})
	}
}

// The request bodies never outgrow what their buffer was asked for: growing
// would leave plaintext behind that nobody overwrites.
func TestBodiesDoNotGrow(t *testing.T) {
	big := binding{math.MaxInt, three.aad}
	for _, size := range []int{1, 2, 3, 32, 1 << 10, 48 << 10, 100 << 10} {
		content := bytes.Repeat([]byte("A"), size)
		for name, c := range map[string]struct {
			body *openbao.Buffer
			room int
		}{
			"encrypt": {encryptBody(big, content), encryptRoom(size, len(big.aad))},
			"decrypt": {decryptBody(big, content), decryptRoom(size, len(big.aad))},
		} {
			if !json.Valid(c.body.B) {
				t.Errorf("%s of %d bytes: %.60q is not JSON", name, size, c.body.B)
			}
			if spare := c.room - len(c.body.B); spare < 0 || spare > maxDecimal {
				t.Errorf("%s of %d bytes: the body has %d bytes and was given %d", name, size, len(c.body.B), c.room)
			}
			c.body.Release()
		}
	}
}

// The plaintext is the only copy that is left: the answer's buffer is
// overwritten, and the result is memory of its own.
func TestPlaintextIsFreshMemory(t *testing.T) {
	answer := []byte(`{"data":{"plaintext":"` + base64.StdEncoding.EncodeToString([]byte(canaryPlain)) + `"}}`)
	plaintext, err := decodeDecrypt(answer)
	if err != nil {
		t.Fatal(err)
	}
	clear(answer)
	if string(plaintext) != canaryPlain {
		t.Errorf("the plaintext shares memory with the answer: %q", plaintext)
	}
}

func TestRoundTrip(t *testing.T) {
	// A Transit that keeps what it gets, and may spoil it.
	keep := func(spoil func(plaintext string) string) http.HandlerFunc {
		var kept string
		return func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Plaintext  string `json:"plaintext"`
				KeyVersion int    `json:"key_version"`
				AAD        string `json:"associated_data"`
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.AAD != three.aad {
				t.Errorf("request: %+v, %v", body, err)
			}
			if strings.Contains(r.URL.Path, "/encrypt/") {
				if raw, _ := base64.StdEncoding.DecodeString(body.Plaintext); len(raw) != probeSize || body.Plaintext == kept {
					t.Errorf("the probe encrypts %q, want %d fresh bytes", body.Plaintext, probeSize)
				}
				kept = body.Plaintext
				fmt.Fprintf(w, `{"data":{"ciphertext":"vault:v%d:AAAA"}}`, body.KeyVersion)
				return
			}
			_, _ = io.WriteString(w, `{"data":{"plaintext":"`+spoil(kept)+`"}}`)
		}
	}
	c := peer(t, newTokens(1), keep(func(p string) string { return p }))
	for range 2 {
		if err := c.RoundTrip(t.Context(), three); err != nil {
			t.Errorf("RoundTrip: %v", err)
		}
	}
	c = peer(t, newTokens(1), keep(func(string) string { return "Q0FOQVJZ" }))
	assertFault(t, c.RoundTrip(t.Context(), three), fault.AnswerInvalid, "not what was encrypted")
	c = peer(t, newTokens(1), keep(func(string) string { return "" }))
	assertFault(t, c.RoundTrip(t.Context(), three), fault.AnswerInvalid, "is empty")
	c = answers(t, 200, `{"data":{"ciphertext":"vault:v2:CANARY"}}`)
	assertFault(t, c.RoundTrip(t.Context(), three), fault.AnswerInvalid, "does not carry the key version")
	c = answers(t, 400, `{"errors":["encryption key not found"]}`)
	assertFault(t, c.RoundTrip(t.Context(), three), fault.KeyMissing, "transit.keyName")
}

func FuzzDecodeEncrypt(f *testing.F) {
	f.Add([]byte(`{"data":{"ciphertext":"vault:v3:YWJj","key_version":3}}`), 3)
	f.Add([]byte(`{"data":{"ciphertext":"vault:v3:\u0041"}}`), 3)
	f.Add([]byte(`{"data":null}`), 1)
	f.Fuzz(func(t *testing.T, answer []byte, version int) {
		got, err := decodeEncrypt(answer, version)
		if err != nil {
			if got != nil {
				t.Errorf("%q with %v", got, err)
			}
			return
		}
		if !bytes.HasPrefix(got, fmt.Appendf(nil, "vault:v%d:", version)) || len(got) >= MaxCiphertext || !isCiphertext(got) {
			t.Errorf("accepted %q for version %d", got, version)
		}
		var a struct{ Data struct{ Ciphertext string } }
		if json.Unmarshal(answer, &a) != nil || a.Data.Ciphertext != string(got) {
			t.Errorf("encoding/json reads %q, not %q", a.Data.Ciphertext, got)
		}
	})
}

func FuzzDecodeDecrypt(f *testing.F) {
	f.Add([]byte(`{"data":{"plaintext":"c2VjcmV0"}}`))
	f.Add([]byte(`{"data":{"plaintext":"\/\/79"}}`))
	f.Add([]byte(`{"data":{"plaintext":"AB=="}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := decodeDecrypt(answer)
		if err != nil {
			if got != nil {
				t.Errorf("%q with %v", got, err)
			}
			return
		}
		var a struct{ Data struct{ Plaintext []byte } }
		if len(got) == 0 || json.Unmarshal(answer, &a) != nil || !bytes.Equal(a.Data.Plaintext, got) {
			t.Errorf("encoding/json reads %q, not %q", a.Data.Plaintext, got)
		}
	})
}
