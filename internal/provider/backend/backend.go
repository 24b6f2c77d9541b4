// Package backend makes the way to OpenBao that a configuration names: the
// connection, the login, the shared token and the client of the one key.
//
// It decides nothing and sends nothing by itself. serve makes one for the life of
// the process, the operator's commands one for their run; both get the same
// thing, so that what a command finds is what the provider would find.
package backend

import (
	"log/slog"
	"time"

	"github.com/baokms/baokms/internal/provider/auth"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/transit"
)

// probeConns are the connections that probes and logins use beside the calls.
const probeConns = 4

// Options are what the configuration does not say. The zero value is a backend
// that nobody watches.
type Options struct {
	// AllowPlainHTTP accepts an http address on loopback: `serve --dev` only.
	AllowPlainHTTP bool
	// RequestIDs is as in openbao.Options.
	RequestIDs bool
	// Requests is told of every request, Auth of logins; nil for nobody.
	Requests openbao.Observer
	Auth     auth.Observer
	// Logger gets auth's events; nil for none.
	Logger *slog.Logger
}

// Backend is the way to OpenBao. Its parts may be used from many goroutines.
type Backend struct {
	Conn *openbao.Conn
	// Login makes a login of its own; Session shares one.
	Login   Login
	Session *auth.Session
	Transit *transit.Client
}

// Login is an auth.Login whose local checks can be made alone.
type Login interface {
	auth.Login
	// Check looks at the credential on this node; nothing is sent.
	Check() error
}

// Open makes the way to OpenBao without using it: it reads the CA file and no
// credential. Its errors name the configuration field. The caller must Close it.
func Open(c *config.Config, o Options) (*Backend, error) {
	conn, err := openbao.New(openbao.Options{
		Address:        c.OpenBao.Address,
		CAFile:         c.OpenBao.CACertFile,
		ServerName:     c.OpenBao.TLSServerName,
		Namespace:      c.OpenBao.Namespace,
		Timeout:        time.Duration(c.OpenBao.Timeout),
		AllowPlainHTTP: o.AllowPlainHTTP,
		MaxConns:       c.Server.MaxConcurrentEncrypt + c.Server.MaxConcurrentDecrypt + probeConns,
		RequestIDs:     o.RequestIDs,
		Observer:       o.Requests,
	})
	if err != nil {
		return nil, err
	}
	b := &Backend{Conn: conn, Login: newLogin(c, conn, o.Logger)}
	b.Session = auth.NewSession(auth.Options{
		Login:            b.Login,
		Window:           time.Duration(c.Auth.LoginBeforeExpiry),
		RenewalIncrement: time.Duration(c.Auth.TokenRenewalIncrement),
		LoginTimeout:     time.Duration(c.Auth.LoginTimeout),
		RequestTimeout:   time.Duration(c.OpenBao.Timeout),
		Logger:           o.Logger,
		Observer:         o.Auth,
	})
	if b.Transit, err = transit.New(conn, b.Session, c.Transit.MountPath, c.Transit.KeyName); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// newLogin makes the login method that the configuration names.
func newLogin(c *config.Config, conn *openbao.Conn, log *slog.Logger) Login {
	if c.Auth.Method == config.MethodCert {
		return auth.NewCert(conn, auth.CertOptions{
			MountPath:       c.Auth.Cert.MountPath,
			Name:            c.Auth.Cert.Name,
			CertificateFile: c.Auth.Cert.CertificateFile,
			KeyFile:         c.Auth.Cert.KeyFile,
			MinRemaining:    time.Duration(c.Auth.Cert.MinRemainingTTL),
			Logger:          log,
		})
	}
	j := c.Auth.JWT
	return auth.NewJWT(conn, auth.JWTOptions{
		MountPath:    j.MountPath,
		Role:         j.Role,
		File:         j.JWTFile,
		MinRemaining: time.Duration(j.MinRemainingTTL),
		Leeway:       time.Duration(j.ClockSkewLeeway),
		Issuer:       j.ExpectedIssuer,
		Audience:     j.ExpectedAudience,
		Subject:      j.ExpectedSubject,
	})
}

// CertificateTTL is how long the client certificate that was last used is still
// valid, false before the first use; nil for a method without one.
func (b *Backend) CertificateTTL() func() (time.Duration, bool) {
	cert, ok := b.Login.(*auth.Cert)
	if !ok {
		return nil
	}
	return func() (time.Duration, bool) {
		end, known := cert.NotAfter()
		return max(0, time.Until(end)), known
	}
}

// Close drops the token and the idle connections.
func (b *Backend) Close() {
	b.Session.Close()
	b.Conn.Close()
}
