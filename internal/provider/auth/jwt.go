package auth

import (
	"bytes"
	"context"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// maxJWT is the largest accepted JWT file in bytes.
const maxJWT = 64 << 10

const (
	opReadJWT  = "read the login JWT"
	opCheckJWT = "check the login JWT"
)

// JWTOptions configure the login with a JWT from a file (design:
// config-and-cli, auth.jwt; openbao, auth).
type JWTOptions struct {
	// MountPath is where the login method is mounted, with "auth/" in front.
	MountPath string
	// Role is the role's name.
	Role string
	// File is the absolute path of the file that holds the JWT. It is read
	// before every login, so it may be replaced at any time.
	File string
	// MinRemaining is how long the JWT must at least be valid from now on; zero
	// asks for no more than that it has not expired.
	MinRemaining time.Duration
	// Leeway is how far this host's clock may differ from the issuer's.
	Leeway time.Duration
	// Issuer, Audience and Subject must be the JWT's, where not empty.
	Issuer, Audience, Subject string
}

// JWT logs in with a JWT from a file. It implements Login.
type JWT struct {
	conn *openbao.Conn
	o    JWTOptions
}

// NewJWT returns a login over conn. It reads nothing yet.
func NewJWT(conn *openbao.Conn, o JWTOptions) *JWT { return &JWT{conn, o} }

// Method is "jwt".
func (j *JWT) Method() string { return "jwt" }

// Login implements Login. A JWT that fails a local check is not sent.
func (j *JWT) Login(ctx context.Context) (Grant, error) {
	token, err := j.read()
	if err != nil {
		return Grant{}, err
	}
	if err := checkJWT(token, j.o, time.Now()); err != nil {
		return Grant{}, err
	}
	var uses int
	answer, err := j.conn.Use(ctx, openbao.JWTLogin, func(ctx context.Context, client *api.Client) (*api.Secret, error) {
		return noting(client, &uses).Logical().WriteWithContext(ctx, j.o.MountPath+"/login", map[string]any{
			"role": j.o.Role,
			"jwt":  token,
		})
	})
	if err != nil {
		return Grant{}, err
	}
	grant, err := grantOf(openbao.JWTLogin, answer)
	grant.NumUses = uses
	return grant, err
}

// Renew implements Login. The JWT plays no part in it.
func (j *JWT) Renew(ctx context.Context, token openbao.Secret, increment time.Duration) (Grant, error) {
	return renewSelf(ctx, j.conn.Use, token, increment)
}

// Check reads the file and makes the local checks alone: nothing is sent.
func (j *JWT) Check() error {
	token, err := j.read()
	if err != nil {
		return err
	}
	return checkJWT(token, j.o, time.Now())
}

func (j *JWT) read() (string, error) {
	content, err := securefile.Read(j.o.File, securefile.Rule{
		What:    "JWT file (auth.jwt.jwtFile)",
		Forbid:  securefile.Private,
		MaxSize: maxJWT,
	})
	if err != nil {
		// securefile's text holds the path and the next step, never content.
		return "", local(opReadJWT, "%s", err.Error())
	}
	defer clear(content)
	token := string(bytes.TrimSpace(content))
	if token == "" {
		return "", local(opReadJWT, "the file is empty: have a JWT written to auth.jwt.jwtFile")
	}
	return token, nil
}
