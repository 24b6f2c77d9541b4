package transit

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

func TestNewRefusesNames(t *testing.T) {
	conn, err := openbao.New(openbao.Options{Address: "http://127.0.0.1:1", AllowPlainHTTP: true, Timeout: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ mount, key, want string }{
		{"transit", "", "transit.keyName"},
		{"transit", ".", "transit.keyName"},
		{"transit", "..", "transit.keyName"},
		{"transit", "canary/x", "transit.keyName"},
		{"transit", "canary\n", "transit.keyName"},
		{"", "key", "transit.mountPath"},
		{"/canary", "key", "transit.mountPath"},
		{"canary/", "key", "transit.mountPath"},
		{"canary/../x", "key", "transit.mountPath"},
		{"canary\x00", "key", "transit.mountPath"},
	} {
		_, err := New(conn, newTokens(1), c.mount, c.key)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("New(%q, %q): %v, want an error that names %s only", c.mount, c.key, err, c.want)
		}
	}
}

// wire records what arrives and answers as Transit does.
type wire struct {
	list []string
}

func (p *wire) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.list = append(p.list, r.Method+" "+r.URL.EscapedPath()+" "+string(body))
	switch {
	case strings.Contains(r.URL.Path, "/encrypt/"):
		_, _ = io.WriteString(w, `{"request_id":"x","data":{"ciphertext":"vault:v3:YWJj","key_version":3}}`)
	case strings.Contains(r.URL.Path, "/decrypt/"):
		_, _ = io.WriteString(w, `{"data":{"plaintext":"c2VjcmV0"},"warnings":null}`)
	case strings.HasSuffix(r.URL.Path, "/config/keys"):
		_, _ = io.WriteString(w, `{"data":{"disable_upsert":true}}`)
	default:
		_, _ = io.WriteString(w, goodKey)
	}
}

func TestRequestsOnTheWire(t *testing.T) {
	p := &wire{}
	c := peer(t, newTokens(1), p.serve)
	ctx := t.Context()

	ciphertext, err := c.Encrypt(ctx, three, []byte("\x00\xff\xfe plain"))
	if err != nil || string(ciphertext) != "vault:v3:YWJj" {
		t.Errorf("Encrypt: %q, %v", ciphertext, err)
	}
	plaintext, err := c.Decrypt(ctx, three, []byte("vault:v3:YWJj+/=="))
	if err != nil || string(plaintext) != "secret" {
		t.Errorf("Decrypt: %q, %v", plaintext, err)
	}
	disabled, err := c.ReadUpsertDisabled(ctx)
	if err != nil || !disabled {
		t.Errorf("ReadUpsertDisabled: %v, %v", disabled, err)
	}
	if key, err := c.ReadKey(ctx); err != nil || key.Latest != 3 {
		t.Errorf("ReadKey: %+v, %v", key, err)
	}
	want := []string{
		`POST /v1/canary-mount/encrypt/canary-key {"plaintext":"AP/+IHBsYWlu","key_version":3,"associated_data":"` + three.aad + `"}`,
		`POST /v1/canary-mount/decrypt/canary-key {"ciphertext":"vault:v3:YWJj+/==","associated_data":"` + three.aad + `"}`,
		`GET /v1/canary-mount/config/keys `,
		`GET /v1/canary-mount/keys/canary-key `,
	}
	if got := strings.Join(p.list, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the server saw\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestBadArgumentsReachNobody(t *testing.T) {
	p := &wire{}
	c := peer(t, newTokens(1), p.serve)
	for _, empty := range [][]byte{nil, {}} {
		_, err := c.Encrypt(t.Context(), three, empty)
		assertFault(t, err, fault.FieldInvalid, "no plaintext")
		_, err = c.Decrypt(t.Context(), three, empty)
		assertFault(t, err, fault.CiphertextRefused, "Transit's form")
	}
	for _, odd := range []string{`vault:v3:CANARY","x":"`, "vault:v3:CANARY\n", "vault:v3:CANARY\\", "vault:v3:é", "vault:v3:CANARY\x00"} {
		_, err := c.Decrypt(t.Context(), three, []byte(odd))
		assertFault(t, err, fault.CiphertextRefused, "Transit's form")
	}
	if len(p.list) != 0 {
		t.Errorf("the server saw %q", p.list)
	}
}

func TestContextEnds(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			c := peer(t, newTokens(1), func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				cancel()
				<-r.Context().Done()
				panic(http.ErrAbortHandler) // an answer now would race with the caller's end
			})
			assertFault(t, call(ctx, c), fault.Canceled, "cancelled")
		})
	}
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	for name, call := range calls {
		for _, body := range []string{
			``, `null`, `[]`, `"CANARY"`, `{}`, `{"data":null}`, `{"data":[]}`, `{"data":"CANARY"}`, `{"data":{}}`,
			`{"data":{"CANARY":1}}`, `{"data":{`, `{"data":{}}{}`, `<html>CANARY`, `{"errors":["CANARY"]}`,
		} {
			err := call(t.Context(), answers(t, 200, body))
			assertFault(t, err, fault.AnswerInvalid, "check what answers at openbao.address")
		}
		assertFault(t, call(t.Context(), answers(t, 204, "")), fault.AnswerInvalid, "check what answers")
		assertFault(t, call(t.Context(), answers(t, 200, strings.Repeat("CANARY", 5<<20/6))), fault.Unavailable, "larger than")
		assertFault(t, call(t.Context(), answers(t, 307, "")), fault.Unavailable, "active node")
		if t.Failed() {
			t.Fatalf("in %s", name)
		}
	}
}
