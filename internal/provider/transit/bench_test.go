package transit

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/openbao"
)

// memory is an OpenBao without a network: it reads the request and hands out
// one answer.
type memory struct{ answer string }

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		var sink [2048]byte
		for {
			if _, err := r.Body.Read(sink[:]); err != nil {
				break
			}
		}
		r.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(m.answer))}, nil
}

func benchClient(b *testing.B, answer string) *Client {
	b.Helper()
	conn, err := openbao.New(openbao.Options{
		Address: "https://bao.test", Timeout: 2 * time.Second, RoundTripper: memory{answer},
	})
	if err != nil {
		b.Fatal(err)
	}
	c, err := New(conn, newTokens(1), canaryMount, canaryKey)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// Sizes as the API server causes them: a seed of 32 bytes.
var (
	benchPlain  = bytes.Repeat([]byte("p"), 32)
	benchCipher = "vault:v3:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("c"), 32+28))
)

func BenchmarkEncrypt(b *testing.B) {
	c := benchClient(b, `{"request_id":"3f2b5a0e-0000-0000-0000-000000000000","lease_id":"","renewable":false,"lease_duration":0,"data":{"ciphertext":"`+
		benchCipher+`","key_version":3},"wrap_info":null,"warnings":null,"auth":null}`)
	b.ReportAllocs()
	for b.Loop() {
		if got, err := c.Encrypt(b.Context(), three, benchPlain); err != nil || string(got) != benchCipher {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecrypt(b *testing.B) {
	c := benchClient(b, `{"request_id":"3f2b5a0e-0000-0000-0000-000000000000","lease_id":"","renewable":false,"lease_duration":0,"data":{"plaintext":"`+
		base64.StdEncoding.EncodeToString(benchPlain)+`"},"wrap_info":null,"warnings":null,"auth":null}`)
	ciphertext := []byte(benchCipher)
	b.ReportAllocs()
	for b.Loop() {
		if got, err := c.Decrypt(b.Context(), three, ciphertext); err != nil || !bytes.Equal(got, benchPlain) {
			b.Fatal(err)
		}
	}
}
