package e2e

import (
	"crypto/tls"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/conformance/interpose"
	"github.com/baokms/baokms/test/stack"
)

// Keys beside the default one. The login may use each of them as the printed policy says, but for deniedKey.
const (
	historyKey = "history-key"
	absentKey  = "absent-key"
	deniedKey  = "denied-key"
	openMount  = "transit-open"
)

// wrongKeys break the profile, each in one way.
var wrongKeys = map[string]map[string]any{
	"ecdsa-key":      {"type": "ecdsa-p256"},
	"chacha-key":     {"type": "chacha20-poly1305"},
	"derived-key":    {"type": "aes256-gcm96", "derived": true},
	"exportable-key": {"type": "aes256-gcm96", "exportable": true},
	"backup-key":     {"type": "aes256-gcm96", "allow_plaintext_backup": true},
}

// newBadBench starts one Transit with all keys.
func newBadBench(t *testing.T) *badBench {
	t.Helper()
	b := &badBench{binary: binary(t), transit: transit(t)}
	keys := map[string]map[string]any{historyKey: {"type": "aes256-gcm96"}, deniedKey: {"type": "aes256-gcm96"}, "deletable-key": {"type": "aes256-gcm96"}}
	maps.Copy(keys, wrongKeys)
	policies := []string{stack.PolicyName}
	allow := func(mount, key string) {
		t.Helper()
		name := "kms-" + mount + "-" + key
		must(t, b.transit.WritePolicy(t.Context(), name, policy.OpenBao(mount, key)))
		policies = append(policies, name)
	}
	for key, parameters := range keys {
		must(t, b.transit.CreateKey(t.Context(), key, parameters))
		if key != deniedKey {
			allow(stack.DefaultMount, key)
		}
	}
	must(t, b.transit.ConfigureKey(t.Context(), "deletable-key", map[string]any{"deletion_allowed": true}))
	allow(stack.DefaultMount, absentKey)

	// A mount that was left as OpenBao makes it: it lets an encrypt request create keys.
	root := b.transit.Root()
	must(t, root.Do(t.Context(), http.MethodPost, "sys/mounts/"+openMount, map[string]any{"type": "transit"}, nil))
	must(t, root.Do(t.Context(), http.MethodPost, openMount+"/keys/"+stack.DefaultKey, map[string]any{"type": "aes256-gcm96"}, nil))
	allow(openMount, stack.DefaultKey)
	allow("transit-nowhere", stack.DefaultKey)
	must(t, b.transit.UpdateRole(t.Context(), map[string]any{"token_policies": policies}))
	return b
}

func badKeys() []badCase {
	key := func(name, key, reason string, words ...string) badCase {
		return badCase{
			name: name, fields: map[string]any{"transit.keyName": key}, code: exitRuntime, creates: lockFile,
			words: append([]string{"startup: " + reason, "bootstrap.graceTimeout"}, words...),
		}
	}
	return []badCase{
		key("missing", absentKey, "metadata_read_failed", "the Transit key does not exist", "create the key", "transit.keyName"),
		key("denied by policy", deniedKey, "", "policy"),
		key("signing key", "ecdsa-key", "profile_invalid", "type is ecdsa-p256", "aes256-gcm96", "create another key"),
		key("another cipher", "chacha-key", "profile_invalid", "type is chacha20-poly1305", "aes256-gcm96"),
		key("derived", "derived-key", "profile_invalid", "derived is true", "create another key"),
		key("exportable", "exportable-key", "profile_invalid", "exportable is true", "create another key"),
		key("plaintext backup", "backup-key", "profile_invalid", "allow_plaintext_backup is true"),
		key("deletable", "deletable-key", "profile_invalid", "deletion_allowed is true", "update of the key's config"),
		{
			name: "upsert allowed", fields: map[string]any{"transit.mountPath": openMount}, code: exitRuntime, creates: lockFile,
			words: []string{"startup: upsert_allowed", "disable_upsert", "config/keys"},
		},
		{
			name: "unknown mount", fields: map[string]any{"transit.mountPath": "transit-nowhere"}, code: exitRuntime, creates: lockFile,
			words: []string{"startup: metadata_read_failed", "nothing is mounted there", "transit.mountPath"},
		},
	}
}

// badServers are an OpenBao that cannot be trusted, reached, or believed.
func badServers(t *testing.T, b *badBench) []badCase {
	t.Helper()
	server := func(name string, fields map[string]any, words ...string) badCase {
		return badCase{name: name, fields: fields, code: exitRuntime, creates: lockFile, words: append([]string{"startup: ", "bootstrap.graceTimeout"}, words...)}
	}
	at := func(address string) map[string]any { return map[string]any{"openbao.address": address} }
	otherCA, err := stack.NewCA(t.TempDir())
	must(t, err)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	plain.Config.ErrorLog = log.New(io.Discard, "", 0)
	// A fresh node has taken in the metadata, and saved it, before its first round trip.
	deep := func(name, part, body string, words ...string) badCase {
		c := server(name, at(b.scripted(t, part, answers(body))), words...)
		c.creates = stateFiles
		return c
	}
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	return []badCase{
		server("wrong CA", map[string]any{"openbao.caCertFile": otherCA.CertFile()}, "TLS connection to OpenBao failed", "openbao.caCertFile"),
		server("wrong server name", map[string]any{"openbao.tlsServerName": "other.stack.test"}, "TLS connection to OpenBao failed", "openbao.tlsServerName"),
		server("expired certificate", at(b.tlsServer(t, stack.CertRequest{Hosts: []string{stack.TransitServerName}, Lifetime: -1})), "expired", "clock"),
		server("certificate of a client", at(b.tlsServer(t, stack.CertRequest{CommonName: stack.TransitServerName})), "TLS connection to OpenBao failed", "openbao.tlsServerName"),
		server("a port without TLS", at("https"+plain.URL[len("http"):]), "does not speak TLS", "openbao.address"),
		server("nobody listens", at("https"+nobody.URL[len("http"):]), "nothing listens there", "openbao.address"),
		server("a redirect", at(b.scripted(t, "/login", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", b.transit.Address())
			w.WriteHeader(http.StatusTemporaryRedirect)
		})), "redirect", "openbao.address", "active node"),
		server("a redirect of the metadata", at(b.scripted(t, "/keys/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", b.transit.Address())
			w.WriteHeader(http.StatusPermanentRedirect)
		})), "redirect", "openbao.address"),
		server("metadata of 5 MiB", at(b.scripted(t, "/keys/", answers(interpose.Large(5<<20)))), "larger than 4194304 bytes", "openbao.address"),
		server("a login answer of 5 MiB", at(b.scripted(t, "/login", answers(interpose.Large(5<<20)))), "larger than", "openbao.address"),
		deep("a ciphertext of another version", "/encrypt/", `{"data":{"ciphertext":"vault:v2:AAAA"}}`, "startup: deep_probe_invalid", "key version"),
		deep("a ciphertext of 5 MiB", "/encrypt/", interpose.Large(5<<20), "startup: deep_probe_failed", "larger than 262144 bytes"),
		deep("another plaintext", "/decrypt/", `{"data":{"plaintext":"AAAA"}}`, "startup: deep_probe_invalid", "not what was encrypted"),
		server("metadata that is no JSON", at(b.scripted(t, "/keys/", answers(`<html>`))), "metadata_read_failed", "openbao.address"),
		server("no answer", map[string]any{
			"openbao.address": b.scripted(t, "/keys/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); panic(http.ErrAbortHandler) }), "openbao.timeout": "300ms",
		}, "did not answer in time", "openbao.timeout"),
	}
}

func answers(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// scripted stands before the real Transit and answers all requests of one kind itself.
func (b *badBench) scripted(t *testing.T, part string, h http.HandlerFunc) string {
	t.Helper()
	p := interpose.Start(t, interpose.Upstream{
		Address: b.transit.Address(), Roots: b.transit.CA().Pool(), ServerName: b.transit.ServerName(),
		Certificate: b.certificate(t, stack.CertRequest{Hosts: []string{stack.TransitServerName}}),
	})
	p.Handle(part, -1, h)
	return p.Address()
}

// tlsServer shows a certificate and serves nothing.
func (b *badBench) tlsServer(t *testing.T, r stack.CertRequest) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{b.certificate(t, r)}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func (b *badBench) certificate(t *testing.T, r stack.CertRequest) tls.Certificate {
	t.Helper()
	pair, err := b.transit.CA().Issue("bad-server", r)
	must(t, err)
	certificate, err := interpose.LoadCertificate(pair.CertFile, pair.KeyFile)
	must(t, err)
	return certificate
}
