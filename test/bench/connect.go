package main

import (
	"context"
	"fmt"
	"time"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/transit"
)

// backend is the provider's way to Transit, made of the provider's own parts: the bare calls are measured through it, and the parts that
// are profiled use it.
type backend struct {
	config  *config.Config
	conn    *openbao.Conn
	session *auth.Session
	client  *transit.Client
	key     transit.Key
}

// connect makes the way that a provider's configuration describes, logs in and reads the key. observer may be nil.
func connect(ctx context.Context, configFile string, observer openbao.Observer) (*backend, error) {
	c, err := config.Load(configFile)
	if err != nil {
		return nil, err
	}
	conn, err := openbao.New(openbao.Options{
		Address:    c.OpenBao.Address,
		CAFile:     c.OpenBao.CACertFile,
		ServerName: c.OpenBao.TLSServerName,
		Namespace:  c.OpenBao.Namespace,
		Timeout:    time.Duration(c.OpenBao.Timeout),
		MaxConns:   c.Server.MaxConcurrentEncrypt + c.Server.MaxConcurrentDecrypt,
		Observer:   observer,
	})
	if err != nil {
		return nil, err
	}
	session := auth.NewSession(auth.Options{
		Login: auth.NewJWT(conn, auth.JWTOptions{
			MountPath: c.Auth.JWT.MountPath,
			Role:      c.Auth.JWT.Role,
			File:      c.Auth.JWT.JWTFile,
		}),
		Window:         time.Duration(c.Auth.LoginBeforeExpiry),
		RequestTimeout: time.Duration(c.OpenBao.Timeout),
	})
	b := &backend{config: c, conn: conn, session: session}
	if b.client, err = transit.New(conn, session, c.Transit.MountPath, c.Transit.KeyName); err == nil {
		b.key, err = b.client.ReadKey(ctx)
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("the way to Transit: %w", err)
	}
	return b, nil
}

// binding is the identity of the key's newest version, as the provider derives it.
func (b *backend) binding() (*identity.Binding, error) {
	return b.config.Scope().Bind(b.key.Latest, b.key.CreatedAtUnix[b.key.Latest])
}

func (b *backend) close() {
	b.session.Close()
	b.conn.Close()
}
