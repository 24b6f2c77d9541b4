package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
)

func mkfifo(t *testing.T, path string) { t.Helper(); must(t, syscall.Mkfifo(path, 0o600)) }

// ownCA gives a case a copy of the CA file, which is shared otherwise, and changes it.
func (b *badBench) ownCA(c badCase) badCase {
	spoil := c.spoil
	c.spoil = func(t *testing.T, f stack.ProviderFiles) {
		t.Helper()
		own := beside(f, "ca.pem")
		write(t, own, read(t, b.transit.CAFile()), 0o644)
		text := strings.Replace(read(t, f.Config), b.transit.CAFile(), own, 1)
		write(t, f.Config, text, 0o600)
		if spoil != nil {
			spoil(t, f)
		}
	}
	return c
}

func badCAFiles(b *badBench) []badCase {
	path := func(f stack.ProviderFiles) string { return beside(f, "ca.pem") }
	cases := badFiles("openbao.caCertFile", path, exitRuntime, false, lockFile, []os.FileMode{0o620, 0o646, 0o666}, []string{"CA certificate file"})
	for name, c := range map[string]struct {
		edit func(string) string
		word string
	}{
		"empty":              {func(string) string { return "" }, "no certificate"},
		"text":               {func(string) string { return "no PEM\n" }, "no certificate"},
		"cut off":            {func(text string) string { return text[:len(text)/2] }, "damaged"},
		"damaged":            {func(string) string { return "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" }, "cannot be parsed"},
		"something else too": {func(text string) string { return text + "-----BEGIN DATA-----\nAAAA\n-----END DATA-----\n" }, "no certificate"},
		"too large":          {func(text string) string { return text + strings.Repeat("#", 1<<20) }, "larger than"},
	} {
		cases = append(cases, badCase{
			name: name, code: exitRuntime, creates: lockFile, words: []string{"openbao.caCertFile", c.word},
			spoil: func(t *testing.T, f stack.ProviderFiles) {
				t.Helper()
				write(t, path(f), c.edit(read(t, path(f))), 0o644)
			},
		})
	}
	for i := range cases {
		cases[i] = b.ownCA(cases[i])
	}
	return cases
}

func badJWTFiles() []badCase {
	path := func(f stack.ProviderFiles) string { return f.JWT }
	cases := badFiles("auth.jwt.jwtFile", path, exitRuntime, false, lockFile, []os.FileMode{0o604, 0o620, 0o644, 0o666}, []string{"JWT"})
	for name, c := range map[string]struct{ content, word string }{
		"empty":       {"", "empty"},
		"white space": {" \n\n", "empty"},
		"text":        {"no JWT\n", "not a signed JWT"},
		"too large":   {strings.Repeat("x", 1<<20), "larger than"},
		// {"alg":"none"}.{"exp":4102444800}. and nothing after it.
		"unsigned": {"eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.", "signature"},
	} {
		cases = append(cases, badCase{
			name: name, code: exitRuntime, creates: lockFile, words: []string{"startup: auth_failed", "JWT", c.word},
			spoil: func(t *testing.T, f stack.ProviderFiles) { t.Helper(); write(t, f.JWT, c.content, 0o600) },
		})
	}
	return cases
}

func badJWTs() []badCase {
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	claim := func(name string, claims, fields map[string]any, words ...string) badCase {
		return badCase{
			name: name, claims: claims, fields: fields, code: exitRuntime, creates: lockFile,
			words: append([]string{"startup: auth_failed", "bootstrap.graceTimeout"}, words...),
		}
	}
	return []badCase{
		claim("expired", map[string]any{"exp": in(-time.Hour)}, nil, "claim exp", "expired", "jwtFile"),
		claim("about to expire", map[string]any{"exp": in(time.Hour)}, map[string]any{"auth.jwt.minRemainingTtl": "2h"}, "claim exp", "auth.jwt.minRemainingTtl"),
		claim("without an end", map[string]any{"exp": nil}, nil, "claim exp", "missing"),
		claim("not yet valid", map[string]any{"nbf": in(time.Hour)}, nil, "claim nbf", "not valid yet", "clock"),
		claim("issued in the future", map[string]any{"iat": in(time.Hour)}, nil, "claim iat", "clock"),
		claim("wrong audience", map[string]any{"aud": "somebody"}, map[string]any{"auth.jwt.expectedAudience": stack.JWTAudience}, "claim aud", "auth.jwt.expectedAudience"),
		claim("wrong issuer", map[string]any{"iss": "https://x.test"}, map[string]any{"auth.jwt.expectedIssuer": stack.JWTIssuer}, "claim iss", "auth.jwt.expectedIssuer"),
		claim("wrong subject", map[string]any{"sub": "x"}, map[string]any{"auth.jwt.expectedSubject": stack.JWTSubject}, "claim sub", "auth.jwt.expectedSubject"),
		claim("wrong audience, left to OpenBao", map[string]any{"aud": "somebody"}, nil, "OpenBao refused the JWT", "auth.jwt.role"),
		claim("unknown role", nil, map[string]any{"auth.jwt.role": "nobody-knows-it"}, "auth.jwt.role"),
		claim("unknown login mount", nil, map[string]any{"auth.jwt.mountPath": "auth/nothing-here"}, "could not log in"),
	}
}

// badSockets fail at the last step of a start: the state of the fresh node has been made by then.
func badSockets(t *testing.T) []badCase {
	run := func(f stack.ProviderFiles) string { return filepath.Dir(f.Socket) }
	socket := func(name string, spoil func(t *testing.T, f stack.ProviderFiles), words ...string) badCase {
		return badCase{name: name, spoil: spoil, code: exitRuntime, creates: stateFiles, words: append([]string{"kms.sock"}, words...)}
	}
	cases := []badCase{
		socket("no directory", func(t *testing.T, f stack.ProviderFiles) { move(t, run(f), beside(f, "elsewhere")) }, "does not exist", "create it"),
		socket("directory is a link", func(t *testing.T, f stack.ProviderFiles) { relink(t, run(f)) }, "symbolic link"),
		socket("directory is a file", func(t *testing.T, f stack.ProviderFiles) {
			move(t, run(f), beside(f, "elsewhere"))
			write(t, run(f), "", 0o600)
		}, "not a directory"),
		socket("directory open to all", func(t *testing.T, f stack.ProviderFiles) { chmod(t, run(f), 0o707) }, "writable by everyone", "chmod o-w"),
		socket("sticky directory open to all", func(t *testing.T, f stack.ProviderFiles) { chmod(t, run(f), 0o777|os.ModeSticky) }, "writable by everyone"),
		socket("a file in its place", func(t *testing.T, f stack.ProviderFiles) { write(t, f.Socket, "precious", 0o600) }, "regular file", "left as it is"),
		socket("a link in its place", func(t *testing.T, f stack.ProviderFiles) { link(t, beside(f, "x"), f.Socket) }, "symbolic link", "left as it is"),
		socket("a directory in its place", func(t *testing.T, f stack.ProviderFiles) { mkdir(t, f.Socket, 0o700) }, "directory", "left as it is"),
		socket("a named pipe in its place", func(t *testing.T, f stack.ProviderFiles) { mkfifo(t, f.Socket) }, "named pipe", "left as it is"),
		socket("somebody serves it", serve, "another process serves it", "stop that process"),
		{
			name: "metrics port is taken", code: exitRuntime, words: []string{"server.metricsAddress", "in use"},
			spoil: func(t *testing.T, f stack.ProviderFiles) { listen(t, f.MetricsAddress) },
		},
		{
			name: "health port is taken", code: exitRuntime, words: []string{"server.healthAddress", "in use"},
			spoil: func(t *testing.T, f stack.ProviderFiles) { listen(t, f.HealthAddress) },
		},
	}
	if os.Geteuid() == 0 {
		cases = append(cases, socket("directory of another owner", func(t *testing.T, f stack.ProviderFiles) { chown(t, run(f)) }, "owned by user"))
	}
	return cases
}

// serve answers on the KMS socket as another process would, and asserts in the end that it still does.
func serve(t *testing.T, f stack.ProviderFiles) {
	t.Helper()
	l, err := net.Listen("unix", f.Socket)
	must(t, err)
	t.Cleanup(func() {
		conn, err := net.Dial("unix", f.Socket)
		if err != nil {
			t.Errorf("the socket of the other process no longer answers: %v", err)
		} else {
			_ = conn.Close()
		}
		_ = l.Close()
	})
}

func listen(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
}
