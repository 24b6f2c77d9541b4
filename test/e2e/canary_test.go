package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/observe/canarytest"
	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/test/conformance/interpose"
	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// What is planted. Each occurs nowhere else.
const (
	canaryMount     = "cnry-mount-4bd1f07a/inner"
	canaryKey       = "cnry-key-90c2e6d5"
	canaryPlaintext = "cnry-plaintext-6f0e2b9ad4"
	canaryUID       = "cnry-uid-1d8a44c07e2f"
	canaryKeyID     = "cnry-key-id-77a0b1c9e3"
	canaryValue     = "cnry-annotation-value-2e5d"
	canaryJWT       = "cnry-no-jwt-8c41d77b"
)

// TestNothingSecretLeaves drives a provider through its failures while every
// answer of OpenBao that fails repeats what the request held, and looks for that
// in everything that comes out (design: overview, invariant 10).
func TestNothingSecretLeaves(t *testing.T) {
	t.Parallel()
	c := newCanaryRun(t)
	for _, failure := range []struct {
		name    string
		provoke func()
	}{
		{"healthy", c.correlated},
		{"requests that are wrong in themselves", c.wrongRequests},
		{"errors that repeat the request", c.echoedErrors},
		{"answers that make no sense", c.nonsense},
		{"redirects", c.redirects},
		{"broken connections", c.broken},
		{"answers that nobody asked for", c.unsolicited},
		{"a token that was revoked", c.revoked},
		{"a policy that denies", c.denied},
		{"a rotation", c.rotated},
		{"a JWT that is none", c.unusableJWT},
		{"a sealed server", c.sealed},
		{"files that were edited", c.edited},
	} {
		// In order and not as subtests in parallel: one provider lives through all.
		t.Run(failure.name, func(t *testing.T) {
			c.t = t
			failure.provoke()
			c.use()
			c.look()
		})
	}
	c.t = t
	c.stop()
}

// canaryRun is one provider and all that was seen of its secrets.
type canaryRun struct {
	t        *testing.T
	transit  *stack.Transit
	proxy    *interpose.Proxy
	provider *stack.Provider
	kms      kmsapi.KeyManagementServiceClient

	good *kmsapi.EncryptResponse

	mu     sync.Mutex
	tokens []string
	jwts   []string
}

func newCanaryRun(t *testing.T) *canaryRun {
	t.Helper()
	c := &canaryRun{t: t}
	c.transit = stacktest.Transit(t, stack.TransitOptions{
		Mount: canaryMount, Key: canaryKey, Policy: policy.OpenBao(canaryMount, canaryKey),
	})
	pair, err := c.transit.CA().Issue("proxy", stack.CertRequest{CommonName: "proxy", Hosts: []string{c.transit.ServerName()}})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := interpose.LoadCertificate(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	c.proxy = interpose.Start(t, interpose.Upstream{
		Address: c.transit.Address(), Roots: c.transit.CA().Pool(), ServerName: c.transit.ServerName(), Certificate: certificate,
	})
	c.proxy.Observe(c.remember)
	c.provider = stacktest.Provider(t, binary(t), c.transit, stack.ProviderConfig{Fields: map[string]any{
		"openbao.address":                        c.proxy.Address(),
		"openbao.timeout":                        "3s",
		"status.probeInterval":                   "200ms",
		"status.deepProbeInterval":               "400ms",
		"rotation.activationDelay":               "100ms",
		"rotation.requireStableObservationCount": 1,
		"logging.level":                          "debug",
		"logging.debugCorrelation.enabled":       true,
		"logging.debugCorrelation.incidentId":    "INC-7",
	}})
	c.kms = kmsClient(t, c.provider)
	eventuallyReady(t, c.provider)
	if c.good, err = c.kms.Encrypt(t.Context(), &kmsapi.EncryptRequest{Plaintext: []byte(canaryPlaintext), Uid: canaryUID}); err != nil {
		t.Fatal(err)
	}
	return c
}

// remember keeps the secrets of a request on its way to OpenBao.
func (c *canaryRun) remember(r *http.Request, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token := r.Header.Get("X-Vault-Token"); token != "" && !slices.Contains(c.tokens, token) {
		c.tokens = append(c.tokens, token)
	}
	var login struct {
		JWT string `json:"jwt"`
	}
	if json.Unmarshal(body, &login) == nil && login.JWT != "" && !slices.Contains(c.jwts, login.JWT) {
		c.jwts = append(c.jwts, login.JWT)
	}
}

// use calls every method, also with what is known to be refused, and looks at
// the errors. It returns how many calls failed.
func (c *canaryRun) use() (failed int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	scan := c.scanner()
	check := func(what string, err error) {
		c.t.Helper()
		if err != nil {
			failed++
			scan.Error(c.t, what, err)
		}
	}
	_, err := c.kms.Status(ctx, &kmsapi.StatusRequest{})
	check("Status", err)
	_, err = c.kms.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: []byte(canaryPlaintext), Uid: canaryUID})
	check("Encrypt", err)
	for name, change := range map[string]func(*kmsapi.DecryptRequest){
		"Decrypt":                               func(*kmsapi.DecryptRequest) {},
		"Decrypt of an altered ciphertext":      func(r *kmsapi.DecryptRequest) { r.Ciphertext[len(r.Ciphertext)-3] ^= 1 },
		"Decrypt of no ciphertext":              func(r *kmsapi.DecryptRequest) { r.Ciphertext = []byte(canaryPlaintext) },
		"Decrypt with a malformed key_id":       func(r *kmsapi.DecryptRequest) { r.KeyId = canaryKeyID },
		"Decrypt with an unknown key_id":        func(r *kmsapi.DecryptRequest) { r.KeyId = otherKeyID(r.KeyId) },
		"Decrypt with a foreign annotation":     func(r *kmsapi.DecryptRequest) { setAnnotation(r, canaryValue) },
		"Decrypt without annotations":           func(r *kmsapi.DecryptRequest) { r.Annotations = nil },
		"Decrypt with a surplus of annotations": func(r *kmsapi.DecryptRequest) { r.Annotations["x."+canaryValue+".io"] = []byte(canaryValue) },
	} {
		r := &kmsapi.DecryptRequest{Ciphertext: bytes.Clone(c.good.Ciphertext), KeyId: c.good.KeyId, Uid: canaryUID, Annotations: map[string][]byte{}}
		for k, v := range c.good.Annotations {
			r.Annotations[k] = bytes.Clone(v)
		}
		change(r)
		_, err := c.kms.Decrypt(ctx, r)
		check(name, err)
	}
	return failed
}

// otherKeyID changes a key_id's last character: well formed, and nobody's.
func otherKeyID(id string) string {
	last := byte('0')
	if id[len(id)-1] == last {
		last = '1'
	}
	return id[:len(id)-1] + string(last)
}

func setAnnotation(r *kmsapi.DecryptRequest, value string) {
	for k := range r.Annotations {
		r.Annotations[k] = []byte(value)
	}
}

// secrets are what may be in no output at all.
func (c *canaryRun) secrets() map[string]string {
	s := map[string]string{
		"mount": canaryMount, "mount's first part": strings.Split(canaryMount, "/")[0], "key name": canaryKey, "plaintext": canaryPlaintext,
		"uid": canaryUID, "annotation": canaryValue, "JWT that is none": canaryJWT, "ciphertext": string(c.good.Ciphertext),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, token := range c.tokens {
		s[fmt.Sprintf("token %d", i)] = token
	}
	for i, jwt := range c.jwts {
		s[fmt.Sprintf("JWT %d", i)] = jwt
		s[fmt.Sprintf("signature of JWT %d", i)] = jwt[strings.LastIndex(jwt, ".")+1:]
	}
	return s
}

func (c *canaryRun) scanner() *canarytest.Scanner { return canarytest.New(c.t, c.secrets()) }

// look looks at all that can be seen of the provider now.
func (c *canaryRun) look() {
	c.t.Helper()
	everywhere := c.scanner()
	// A key_id is no secret, but only its hash is shown (design: observability).
	withoutKeyIDs := c.secrets()
	withoutKeyIDs["key_id"] = c.good.KeyId
	withoutKeyIDs["malformed key_id"] = canaryKeyID
	shown := canarytest.New(c.t, withoutKeyIDs)

	log, err := os.ReadFile(c.provider.Files.Log)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(log) == 0 {
		c.t.Error("the log is empty")
	}
	shown.Bytes(c.t, "the log", log)
	for _, path := range []string{"/metrics", "/ready", "/live"} {
		address := c.provider.Files.HealthAddress
		if path == "/metrics" {
			address = c.provider.Files.MetricsAddress
		}
		shown.Bytes(c.t, path, c.get(http.DefaultClient, "http://"+address+path))
	}
	report := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.provider.Files.ReportSocket)
	}}}
	defer report.CloseIdleConnections()
	for _, path := range []string{"/v1/report", "/v1/retirement-plan?before-version=2", "/v1/retirement-plan?before-version=" + canaryValue} {
		shown.Bytes(c.t, "the answer of "+strings.Split(path, "?")[0], c.get(report, "http://node"+path))
	}
	everywhere.Files(c.t, filepath.Dir(c.provider.Files.State))
}

func (c *canaryRun) get(client *http.Client, url string) []byte {
	c.t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || len(body) == 0 {
		c.t.Fatalf("%d bytes, %v", len(body), err)
	}
	return body
}

// correlated asserts that everything is on that says more than it has to: what is
// not printed cannot be searched.
func (c *canaryRun) correlated() {
	c.use()
	eventually(c.t, "calls are correlated", func() error {
		log, err := os.ReadFile(c.provider.Files.Log)
		if err != nil {
			return err
		}
		for _, field := range []string{"request_uid_hash", "openbao_request_id", "incident_id"} {
			if !bytes.Contains(log, []byte(field)) {
				return fmt.Errorf("no %s in the log", field)
			}
		}
		return nil
	})
}

func (c *canaryRun) wrongRequests() {
	ctx := c.t.Context()
	scan := c.scanner()
	for name, r := range map[string]*kmsapi.EncryptRequest{
		"Encrypt of nothing":      {Uid: canaryUID},
		"Encrypt of too much":     {Plaintext: bytes.Repeat([]byte(canaryPlaintext), 200), Uid: canaryUID},
		"Encrypt of far too much": {Plaintext: bytes.Repeat([]byte(canaryPlaintext), 5000), Uid: canaryUID},
		"Encrypt with a long uid": {Plaintext: []byte(canaryPlaintext), Uid: strings.Repeat(canaryUID, 200)},
	} {
		if _, err := c.kms.Encrypt(ctx, r); err == nil {
			c.t.Errorf("%s succeeded", name)
		} else {
			scan.Error(c.t, name, err)
		}
	}
}

// failing lets answer take the place of OpenBao for every path of it, until the
// provider is no longer healthy, and uses the provider meanwhile.
func (c *canaryRun) failing(answer http.HandlerFunc) {
	c.t.Helper()
	end := c.proxy.Override("/v1/", answer)
	eventually(c.t, "the provider notices", func() error {
		r, err := readiness(c.t.Context(), c.provider)
		if err == nil && r.Status == "ready" {
			err = fmt.Errorf("ready")
		}
		return err
	})
	if c.use() == 0 {
		c.t.Error("no call failed")
	}
	c.look()
	end()
	eventuallyReady(c.t, c.provider)
}

// held is everything secret that a request holds, as text that an error could
// repeat.
func held(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	return r.Header.Get("X-Vault-Token") + " " + r.URL.Path + " " + string(body)
}

func (c *canaryRun) echoedErrors() {
	for _, code := range []int{400, 404, 405, 412, 429, 472, 500, 502, 503} {
		c.failing(func(w http.ResponseWriter, r *http.Request) {
			text, _ := json.Marshal(map[string]any{"errors": []string{held(r), "1 error occurred:\n\t* " + held(r)}, "request_id": held(r)})
			w.Header().Set("Warning", held(r))
			w.WriteHeader(code)
			_, _ = w.Write(text)
		})
	}
}

func (c *canaryRun) nonsense() {
	for _, shape := range []string{"%s", `{"data":%q}`, `{"request_id":%q,"data":{"ciphertext":%[1]q,"plaintext":%[1]q,"keys":%[1]q,"type":%[1]q,"latest_version":%[1]q}}`, `{"auth":{"client_token":%q`} {
		c.failing(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, shape, held(r)) })
	}
}

func (c *canaryRun) redirects() {
	c.failing(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://"+canaryValue+".test"+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
}

func (c *canaryRun) broken() {
	c.failing(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

// unsolicited answers well, and goes on talking: net/http finds that on an idle
// connection.
func (c *canaryRun) unsolicited() {
	end := c.proxy.Override("/keys/", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			c.t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")
		<-time.After(10 * time.Millisecond) // so that it is read as an answer of its own
		_, _ = io.WriteString(conn, held(r))
		<-time.After(50 * time.Millisecond)
	})
	eventuallyReason(c.t, c.provider, "metadata_read_failed")
	for range 3 {
		c.use()
	}
	c.look()
	end()
	eventuallyReady(c.t, c.provider)
}

func (c *canaryRun) revoked() {
	if _, err := c.transit.RevokeLogins(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.use()
	eventuallyReady(c.t, c.provider)
}

func (c *canaryRun) denied() {
	write := func(text string) {
		if err := c.transit.WritePolicy(c.t.Context(), stack.PolicyName, text); err != nil {
			c.t.Fatal(err)
		}
	}
	write("path \"sys/capabilities-self\" {\n  capabilities = [\"update\"]\n}\n")
	eventually(c.t, "the provider notices", func() error {
		r, err := readiness(c.t.Context(), c.provider)
		if err == nil && r.Status == "ready" {
			err = fmt.Errorf("ready")
		}
		return err
	})
	c.use()
	c.look()
	write(policy.OpenBao(canaryMount, canaryKey))
	eventuallyReady(c.t, c.provider)
}

func (c *canaryRun) rotated() {
	latest, err := c.transit.Rotate(c.t.Context(), canaryKey)
	if err != nil {
		c.t.Fatal(err)
	}
	c.use()
	c.look()
	eventuallyActive(c.t, c.provider, latest)
}

// unusableJWT leaves the provider with a token that is gone and a file that
// holds no JWT, and then repairs the file.
func (c *canaryRun) unusableJWT() {
	if err := os.WriteFile(c.provider.Files.JWT, []byte(canaryJWT), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.transit.RevokeLogins(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	eventuallyReason(c.t, c.provider, "auth_failed")
	c.use()
	c.look()
	if err := c.transit.WriteJWT(c.provider.Files.JWT, nil); err != nil {
		c.t.Fatal(err)
	}
	eventuallyReady(c.t, c.provider)
}

func (c *canaryRun) sealed() {
	if err := c.transit.Seal(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	eventuallyReason(c.t, c.provider, "metadata_read_failed")
	c.use()
	c.look()
	if err := c.transit.Unseal(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	eventuallyReady(c.t, c.provider)
}

// edited writes secrets into a state file; what the provider says of it must not
// repeat them.
func (c *canaryRun) edited() {
	state := c.provider.Files.State
	before, err := os.ReadFile(state)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(state, []byte(`{"schema":"`+canaryValue+`","`+canaryUID+`":1}`), 0o600); err != nil {
		c.t.Fatal(err)
	}
	eventuallyReason(c.t, c.provider, "state_conflict")
	c.use()
	log, err := os.ReadFile(c.provider.Files.Log)
	if err != nil {
		c.t.Fatal(err)
	}
	c.scanner().Bytes(c.t, "the log", log)
	if err := os.WriteFile(state, before, 0o600); err != nil {
		c.t.Fatal(err)
	}
	eventuallyReady(c.t, c.provider)
}

func (c *canaryRun) stop() {
	if err := c.provider.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if code, err := c.provider.Wait(c.t.Context()); err != nil || code != 0 {
		c.t.Errorf("exit code %d, %v", code, err)
	}
	log, err := os.ReadFile(c.provider.Files.Log)
	if err != nil {
		c.t.Fatal(err)
	}
	c.scanner().Bytes(c.t, "the whole log", log)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tokens) < 3 || len(c.jwts) < 2 {
		c.t.Errorf("only %d tokens and %d JWTs were seen: too little was tried", len(c.tokens), len(c.jwts))
	}
}
