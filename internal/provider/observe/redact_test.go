package observe

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/observe/canarytest"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/status"
)

// The canaries: made-up secrets, each of the kind that its name says.
const (
	canary         = "canary-s.0123456789" // a plaintext, or any other bytes
	tokenCanary    = "s.CANARYabcdefghijklmnop12"
	newTokenCanary = "hvs.CAESIJcanary0123456789abcdefghijk"
	// jwtCanary looks like the head of a JWT.
	jwtCanary        = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImNhbmFyeSJ9"
	keyCanary        = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIcanary"
	ciphertextCanary = "vault:v3:c2NhbmFyeS1jaXBoZXJ0ZXh0"
	pathCanary       = "/v1/canary-mount/encrypt/canary-key"
	keyIDCanary      = "obk2.canary0abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"
)

// shaped are the canaries that show what they are.
var shaped = []string{tokenCanary, newTokenCanary, jwtCanary, keyCanary, ciphertextCanary, pathCanary}

var hashOfKey = identity.Hash("a key_id")

func scanner(t *testing.T) *canarytest.Scanner {
	t.Helper()
	return canarytest.New(t, map[string]string{
		"plaintext": canary, "token": tokenCanary, "newer token": newTokenCanary, "JWT": jwtCanary, "private key": keyCanary,
		"ciphertext": ciphertextCanary, "path": pathCanary, "mount": "canary-mount", "key_id": keyIDCanary,
	})
}

// Types that hold a secret and hide it from nobody.
type (
	marked   struct{ Token string }
	named    string
	array    [len(canary)]byte
	text     struct{ marked }
	document struct{ marked }
	fails    struct{ marked }
	loud     struct{ marked }
	logs     struct{ value slog.Value }
	panics   struct{ marked }
)

func (m marked) String() string                 { return m.Token }
func (t text) MarshalText() ([]byte, error)     { return []byte(t.Token), nil }
func (d document) MarshalJSON() ([]byte, error) { return json.Marshal(d.Token) }
func (f fails) Error() string                   { return f.Token }
func (l loud) Error() string                    { panic(l.Token) }
func (l logs) LogValue() slog.Value             { return l.value }
func (p panics) LogValue() slog.Value           { panic(p.Token) }

var requestError = &url.Error{Op: "Post", URL: "https://bao.example" + pathCanary, Err: errors.New("refused")}

// secretValues are values that may be printed under no key: not as they are, not
// inside one another, not by what they make of themselves.
func secretValues() map[string]any {
	m := marked{canary}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(requestError)
	request, err := http.NewRequest(http.MethodPost, requestError.URL, strings.NewReader(canary))
	if err != nil {
		panic(err)
	}
	request.Header.Set("X-Vault-Token", tokenCanary)
	secret := openbao.NewSecret(tokenCanary)
	text1 := canary
	values := map[string]any{
		"bytes": []byte(canary), "raw JSON": json.RawMessage(`"` + canary + `"`), "array": array([]byte(canary)), "pointer to text": &text1,
		"buffer": bytes.NewBufferString(canary), "struct": m, "pointer": &m, "stringer": fmt.Stringer(m), "named text": named(canary),
		"texts": []string{canary}, "map": map[string]string{canary: canary}, "anything": []any{canary, m}, "text marshaler": text{m},
		"JSON marshaler": document{m}, "function": func() string { return canary }, "reflected": reflect.ValueOf(m),
		"a secret": secret, "pointer to a secret": &secret, "a struct with a secret": struct{ S openbao.Secret }{secret},
		"URL": request.URL, "request": request, "header": request.Header, "query": url.Values{"a": {canary}},
		"certificate": tls.Certificate{PrivateKey: keyCanary, Leaf: nil, Certificate: [][]byte{[]byte(canary)}},
		"context":     context.WithValue(context.Background(), named("k"), canary),

		"error of another URL": &url.Error{Op: "Get", URL: "https://canary-mount.example/health", Err: errors.New("refused")},
		"URL error":            requestError, "wrapped URL error": fmt.Errorf("encrypt: %w", requestError), "joined URL error": errors.Join(errors.New("x"), requestError),
		"cause of a context": context.Cause(ctx), "fault around a URL error": fault.Wrap(fault.ConnectionFailed, "encrypt", requestError),
		"fault around a secret":     fault.Wrap(fault.ConnectionFailed, "encrypt", fails{m}),
		"deep fault":                fmt.Errorf("probe: %w", fmt.Errorf("read: %w", fault.Wrap(fault.ConnectionFailed, "encrypt", fails{m}))),
		"error that panics":         loud{m},
		"wrapped error that panics": fault.Wrap(fault.Unknown, "encrypt", loud{m}),
		"nil fault":                 (*fault.Error)(nil),
		"errors":                    []error{fails{m}},
		"class":                     fault.Class(canary),
		"classes":                   []fault.Class{fault.Class(canary)},
		"reason":                    status.Reason(canary),
		"reasons":                   []status.Reason{status.Starting, status.Reason(canary)},
		"LogValuer that panics":     panics{m},
		"LogValuer of bytes":        logs{slog.AnyValue([]byte(canary))},
		"LogValuer of a LogValuer":  logs{slog.AnyValue(logs{slog.AnyValue(m)})},
		"LogValuer of itself":       logs{slog.AnyValue(&logs{})},
		"LogValuer of a group":      logs{slog.GroupValue(slog.Any("operation", m), slog.String("token", canary))},
		"LogValuer of a secret":     logs{slog.AnyValue(secret)},
		"LogValuer of a URL error":  logs{slog.AnyValue(requestError)},
		"pointer to a LogValuer":    &panics{m},
		"slice of LogValuers":       []any{panics{m}, logs{slog.StringValue(canary)}},
		"group":                     slog.GroupValue(slog.Any("operation", m), slog.Group("deep", slog.Any("error", []byte(canary)))),
		"attribute":                 slog.Any("operation", m),
		"attributes":                []slog.Attr{slog.Any("operation", m)},
		"value":                     slog.AnyValue(m),
		"record":                    slog.NewRecord(time.Now(), slog.LevelInfo, canary, 0),
	}
	for _, s := range shaped {
		values["text that is "+s[:5]] = s
		values["text that ends in "+s[:5]] = "refused: " + s
		values["error that is "+s[:5]] = errors.New(s)
		values["error that holds "+s[:5]] = fmt.Errorf("login: %w", fmt.Errorf("(%s) refused", s))
		values["fault that says "+s[:5]] = fault.New(fault.LoginRejected, "log in", "refused %s", s)
		values["LogValuer of "+s[:5]] = logs{slog.StringValue(s)}
	}
	return values
}

// everyKey are all keys of the schema, the built-in ones, and such as nobody
// decided about.
func everyKey() []string {
	return append(slices.Sorted(maps.Keys(textKeys)),
		slog.TimeKey, slog.LevelKey, slog.MessageKey, slog.SourceKey, timeKey, messageKey, "", "token", "cause", "path", "key_id", "n")
}

// TestNoSecretIsPrinted feeds every secret value to every key, in every place
// where an attribute can be, in both formats, with and without flood control.
func TestNoSecretIsPrinted(t *testing.T) {
	s := scanner(t)
	values := secretValues()
	names := slices.Sorted(maps.Keys(values))
	for _, c := range []struct{ format, level, event string }{
		{"json", "debug", "a.b"}, {"text", "debug", "a.b"}, {"json", "info", "kms.request"}, {"text", "info", "kms.request"},
	} {
		for _, key := range everyKey() {
			l, out := newLogger(t, c.level, c.format)
			ends := make([]int, len(names)) // of each value's lines in out
			for i, name := range names {
				logEverywhere(l, c.event, slog.Any(key, values[name]))
				ends[i] = out.Len()
			}
			printed := out.String()
			if ends[0] == 0 {
				t.Fatalf("nothing was printed under %q", key)
			}
			if len(s.Find("", []byte(printed))) > 0 {
				from := 0
				for i, name := range names {
					s.Text(t, name+" under "+key+" as "+c.format, printed[from:ends[i]])
					from = ends[i]
				}
			}
			l.Error(lastEvent) // flood control tells what it kept
			s.Text(t, "what was kept of "+key, out.String()[len(printed):])
		}
	}
}

// logEverywhere logs an attribute in each place where one can be.
func logEverywhere(l *slog.Logger, event string, a slog.Attr) {
	l.LogAttrs(context.Background(), slog.LevelWarn, event, a)
	l.With(a).Warn(event)
	l.WithGroup("g").With(a).Warn(event, a)
	l.Warn(event, slog.Group("g", a, slog.Group("h", a)))
}

// Under a key whose values are known, no other text is printed, whatever it looks
// like.
func TestClosedKeysPrintNothingElse(t *testing.T) {
	s := scanner(t)
	for _, key := range everyKey() {
		if prose[key] {
			continue
		}
		for _, secret := range append(shaped, canary, keyIDCanary) {
			l, out := newLogger(t, "info", "json")
			l.Info("a.b", key, secret)
			l.Info("a.b", key, logs{slog.StringValue(secret)})
			l.Info("a.b", key, errors.New(secret))
			s.Bytes(t, key, out.Bytes())
		}
	}
}

// prose are the keys that take sentences, versions and names of this node, or what
// the operator called the incident.
var prose = map[string]bool{
	"incident_id": true,
	"reason":      true, "error": true, "next_step": true, "version": true, "commit": true, "build_date": true, "go_version": true,
	"address": true, "panic_at": true, "socket": true, "config_file": true, "state_file": true,
}

// A secret in the place of a key or of the event is not printed either.
func TestNoSecretIsAKeyOrAnEvent(t *testing.T) {
	s := scanner(t)
	for _, secret := range append(shaped, canary, keyIDCanary) {
		for _, level := range []string{"debug", "info"} {
			l, out := newLogger(t, level, "json")
			l.Warn("a.b", secret, 1)
			l.Warn("a.b", secret, "x")
			l.Warn("a.b", []any{secret}...) // a mistake that vet would find
			l.Warn("a.b", []any{"n", 1, secret}...)
			l.With(secret, 1).With([]any{secret}...).Warn("a.b")
			l.Warn("a.b", slog.Group("g", secret, 1))
			l.Warn(secret)
			l.Warn("kms.request", "error_class", secret, "n", secret)
			l.Warn(lastEvent)
			if n := strings.Count(out.String(), "\n"); n != 9 {
				t.Fatalf("%d lines are printed, want 9:\n%s", n, out)
			}
			s.Bytes(t, "the log", out.Bytes())
		}
	}
}

// What every key of the schema is for is printed as it is.
func TestEveryKeyPrintsWhatItIsFor(t *testing.T) {
	hex := "sha256:" + strings.Repeat("0a", 32)
	fingerprint := identity.Scope{}.Fingerprint("m", "k")
	examples := map[string][]string{
		"operation":  append(slices.Clone(operations), "Status", "Encrypt", "Decrypt"),
		"status":     {"ok", "failed", "OK", "Unavailable", "DeadlineExceeded", "openbao_sealed"},
		"probe_kind": {"metadata", "deep", "discovery", "state"}, "error_class": slices.Collect(maps.Keys(classes)),
		"state": {"active", "half-open"}, "phase": {"start"}, "signal": {"terminated", "SIGTERM"}, "method": {"jwt", "Encrypt"},
		"reason": append(slices.Collect(maps.Keys(reasons)), "--dev accepts plain HTTP to OpenBao: plaintext and tokens cross the loopback unprotected"),
		"error": {"decrypt: OpenBao is sealed: unseal it (HTTP 503)", "the Transit key does not have the required profile: exportable is true",
			"openbao.caCertFile: /etc/openbao-kms/ca.pem: no such file", "no answer within openbao.timeout (1.5s). Check the load.",
			"the ciphertext is of Transit version 2, version 3 was asked for"},
		"next_step": {"write jwt and give auth.jwt"}, "key_id_hash": {hashOfKey}, "previous_key_id_hash": {hashOfKey},
		"fingerprint": {fingerprint}, "state_hash": {hex}, "request_uid_hash": {hex}, "openbao_request_id": {testRequestID},
		"incident_id": {"INC-1.2_3:4"}, "expires_at": {"2026-11-30T02:00:00Z"}, "version": {"v1.2.3-4-gabcdef0-dirty"},
		"commit": {"0123456789abcdef0123456789abcdef01234567"}, "build_date": {"2026-11-30T02:00:00Z"}, "go_version": {"go1.26.8"},
		"address": {"127.0.0.1:8081", "[::1]:9"}, "panic_at": {"kms.(*Service).Encrypt service.go:12"},
		"socket": {"/run/openbao-kms/kms.sock"}, "config_file": {"/etc/openbao-kms/v1/config.yaml"}, "state_file": {"/var/lib/openbao-kms/state/key-registry.json"},
	}
	for key := range textKeys {
		if len(examples[key]) == 0 {
			t.Errorf("no example of %s", key)
		}
		for _, example := range append(examples[key], "") {
			l, out := newLogger(t, "info", "json")
			l.Info("a.b", key, example)
			var got map[string]any
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got[key] != example {
				t.Errorf("%s %q is printed as %v", key, example, got[key])
			}
		}
	}
}
