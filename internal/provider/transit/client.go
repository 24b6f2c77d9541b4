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
	// Replace is told of a token that OpenBao rejected, with 401 or 403, and
	// returns another one, waiting for a login as long as ctx allows. It fails at
	// once, with fault.RecoveryDelayed or a failed login's cause, while there may
	// be no other.
	Replace(ctx context.Context, rejected openbao.Secret) (openbao.Secret, error)
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

	metadata, upsert, encrypt, decrypt endpoint
}

// New returns a client of transit.keyName in transit.mountPath. It sends
// nothing. Its errors name the configuration field and not its value.
func New(conn *openbao.Conn, tokens TokenSource, mountPath, keyName string) (*Client, error) {
	if keyName == "" || keyName == "." || keyName == ".." || strings.Contains(keyName, "/") || strings.ContainsFunc(keyName, unicode.IsControl) {
		return nil, errors.New("transit.keyName: not the name of a single key: correct it")
	}
	c := &Client{conn: conn, tokens: tokens}
	for _, e := range []struct {
		endpoint *endpoint
		op       openbao.Operation
		method   string
		path     []string
	}{
		{&c.metadata, openbao.MetadataRead, http.MethodGet, []string{mountPath, "keys", keyName}},
		{&c.upsert, openbao.UpsertRead, http.MethodGet, []string{mountPath, "config", "keys"}},
		{&c.encrypt, openbao.Encrypt, http.MethodPost, []string{mountPath, "encrypt", keyName}},
		{&c.decrypt, openbao.Decrypt, http.MethodPost, []string{mountPath, "decrypt", keyName}},
	} {
		target, err := conn.Endpoint(e.op, e.method, e.path...)
		if err != nil {
			return nil, err
		}
		e.endpoint.Endpoint, e.endpoint.op = target, e.op
	}
	return c, nil
}

// nonsense is an answer that cannot be right.
func nonsense(op openbao.Operation, format string, args ...any) *fault.Error {
	return fault.New(fault.AnswerInvalid, op.Words(), format, args...)
}
