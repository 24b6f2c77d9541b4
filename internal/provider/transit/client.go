package transit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// TokenSource gives the token of a request. *auth.Session is one.
type TokenSource interface {
	// Token returns a token that is valid as far as anyone knows, waiting for a
	// login as long as ctx allows.
	Token(ctx context.Context) (openbao.Secret, error)
	// Discard is told of a token that OpenBao rejected.
	Discard(token openbao.Secret)
}

// Binding is the part of a snapshot's identity that goes to Transit.
// *identity.Binding is one.
type Binding interface {
	// Version is the key version, at least 1.
	Version() int
	// AssociatedDataBase64 is the associated data in standard base64.
	AssociatedDataBase64() string
}

// Client talks to one Transit key. Its methods may be called from many
// goroutines at once. All their errors are *fault.Error.
type Client struct {
	conn   *openbao.Conn
	tokens TokenSource

	metadata, upsert, encrypt, decrypt *openbao.Endpoint
}

// New returns a client of transit.keyName in transit.mountPath. It sends
// nothing. Its errors name the configuration field and not its value.
func New(conn *openbao.Conn, tokens TokenSource, mountPath, keyName string) (*Client, error) {
	if keyName == "" || keyName == "." || keyName == ".." || strings.Contains(keyName, "/") || strings.ContainsFunc(keyName, unicode.IsControl) {
		return nil, errors.New("transit.keyName: not the name of a single key: correct it")
	}
	c := &Client{conn: conn, tokens: tokens}
	for _, e := range []struct {
		endpoint **openbao.Endpoint
		op       openbao.Operation
		method   string
		path     []string
	}{
		{&c.metadata, openbao.MetadataRead, http.MethodGet, []string{mountPath, "keys", keyName}},
		{&c.upsert, openbao.UpsertRead, http.MethodGet, []string{mountPath, "config", "keys"}},
		{&c.encrypt, openbao.Encrypt, http.MethodPost, []string{mountPath, "encrypt", keyName}},
		{&c.decrypt, openbao.Decrypt, http.MethodPost, []string{mountPath, "decrypt", keyName}},
	} {
		endpoint, err := conn.Endpoint(e.op, e.method, e.path...)
		if err != nil {
			return nil, err
		}
		*e.endpoint = endpoint
	}
	return c, nil
}

// call makes one request with the shared token. If OpenBao rejects the token,
// the token is discarded and the call repeated once with another: the only
// retry that there is (design: openbao, auth). body may be nil; it is called
// once for each request.
func (c *Client) call(ctx context.Context, e *openbao.Endpoint, body func() *openbao.Buffer) (*openbao.Buffer, error) {
	answer, token, err := c.once(ctx, e, body)
	if token.IsZero() || fault.CauseOf(err) != fault.Unauthenticated {
		return answer, err
	}
	c.tokens.Discard(token)
	answer, _, err = c.once(ctx, e, body)
	return answer, denied(err)
}

// once returns the token that the request was sent with, the zero Secret if
// there was none to send it with.
func (c *Client) once(ctx context.Context, e *openbao.Endpoint, body func() *openbao.Buffer) (*openbao.Buffer, openbao.Secret, error) {
	token, err := c.tokens.Token(ctx)
	if err != nil {
		return nil, openbao.Secret{}, err
	}
	var b *openbao.Buffer
	if body != nil {
		b = body()
	}
	answer, err := c.conn.Call(ctx, e, token, b)
	return answer, token, err
}

// denied turns a 403 under a fresh token into a denial by policy.
func denied(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Cause != fault.Unauthenticated || f.HTTPStatus != http.StatusForbidden {
		return err
	}
	d := fault.New(fault.PolicyDenied, f.Op, "compare the role's policy with the output of `bao-kms-provider policy openbao`")
	d.HTTPStatus = f.HTTPStatus
	return d
}

// nonsense is an answer that cannot be right.
func nonsense(op openbao.Operation, format string, args ...any) *fault.Error {
	return fault.New(fault.AnswerInvalid, op.Words(), format, args...)
}
