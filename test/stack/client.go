package stack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// answerLimit bounds how much of a server's answer is read, in bytes.
const answerLimit = 8 << 20

// Client calls OpenBao's HTTP API with one token. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// APIError is an answer of OpenBao that is not a success.
type APIError struct {
	// Status is the HTTP status.
	Status int
	// Errors is what OpenBao said.
	Errors []string
}

func (e *APIError) Error() string {
	return fmt.Sprintf("OpenBao answered %d: %s", e.Status, strings.Join(e.Errors, "; "))
}

// newHTTPClient trusts the CA only and checks the server's name.
func newHTTPClient(ca *CA, serverName string, certificates ...tls.Certificate) *http.Client {
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{
				RootCAs: ca.Pool(), ServerName: serverName, MinVersion: tls.VersionTLS12, Certificates: certificates,
			},
			MaxIdleConnsPerHost: 64,
			ForceAttemptHTTP2:   true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// With is the same client with another token.
func (c *Client) With(token string) *Client {
	return &Client{base: c.base, token: token, http: c.http}
}

// Do sends one request. path starts after /v1/; method LIST is allowed; in, when not nil, is sent as JSON; out, when not nil, gets the
// whole answer. An answer outside 2xx is an *APIError.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request to OpenBao: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/v1/"+path, body)
	if err != nil {
		return fmt.Errorf("making a request to OpenBao: %w", err)
	}
	req.Header.Set("X-Vault-Request", "true")
	if c.token != "" {
		req.Header.Set("X-Vault-Token", c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("calling OpenBao: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("reading OpenBao's answer: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		said := &APIError{Status: resp.StatusCode}
		_ = json.Unmarshal(raw, said)
		return said
	}
	if out == nil || len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decoding OpenBao's answer: %w", err)
	}
	return nil
}

// data sends a request and decodes the answer's data.
func (c *Client) data(ctx context.Context, method, path string, in, out any) error {
	return c.Do(ctx, method, path, in, &struct {
		Data any `json:"data"`
	}{out})
}
