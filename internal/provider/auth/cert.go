package auth

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/openbao"
)

// CertOptions configure the login with a client certificate from files (design:
// config-and-cli, auth.cert; openbao, auth).
type CertOptions struct {
	// MountPath is where the login method is mounted, with "auth/" in front.
	MountPath string
	// Name is the role's name; empty lets OpenBao choose by the certificate.
	Name string
	// CertificateFile and KeyFile are the absolute paths of the PEM files: the
	// certificate, which its chain may follow, and its private key. They are read
	// before every login and renewal, so they may be replaced at any time.
	CertificateFile, KeyFile string
	// MinRemaining is auth.cert.minRemainingTtl: a certificate that is valid for
	// less is used all the same, because a day without logins would be worse than
	// the last day of a certificate. Each use of it is logged as a warning.
	MinRemaining time.Duration
	// Logger gets that warning, the event auth.certificate; nil for none.
	Logger *slog.Logger
}

// Cert logs in with a client certificate from files. It implements Login.
type Cert struct {
	conn *openbao.Conn
	o    CertOptions
	// notAfter is the end of the certificate that was last used, nil for none.
	notAfter atomic.Pointer[time.Time]
}

// NewCert returns a login over conn, which must be HTTPS. It reads nothing yet.
func NewCert(conn *openbao.Conn, o CertOptions) *Cert { return &Cert{conn: conn, o: o} }

// Method is "cert".
func (c *Cert) Method() string { return "cert" }

// Login implements Login. A certificate that fails a local check is not
// presented.
func (c *Cert) Login(ctx context.Context) (Grant, error) {
	use, err := c.present()
	if err != nil {
		return Grant{}, err
	}
	body := map[string]any{}
	if c.o.Name != "" {
		body["name"] = c.o.Name
	}
	var uses int
	answer, err := use(ctx, openbao.CertLogin, func(ctx context.Context, client *api.Client) (*api.Secret, error) {
		return noting(client, &uses).Logical().WriteWithContext(ctx, c.o.MountPath+"/login", body)
	})
	if err != nil {
		return Grant{}, err
	}
	grant, err := grantOf(openbao.CertLogin, answer)
	grant.NumUses = uses
	return grant, err
}

// Renew implements Login. OpenBao binds a token to the certificate that it was
// given for, so the renewal presents the certificate too.
func (c *Cert) Renew(ctx context.Context, token openbao.Secret, increment time.Duration) (Grant, error) {
	use, err := c.present()
	if err != nil {
		return Grant{}, err
	}
	return renewSelf(ctx, use, token, increment)
}

// Check reads the files and makes the local checks alone: nothing is sent.
func (c *Cert) Check() error {
	_, _, err := c.o.read(time.Now())
	return err
}

// NotAfter is the end of the certificate that was last read and used for a login
// or a renewal; false before the first.
func (c *Cert) NotAfter() (time.Time, bool) {
	if t := c.notAfter.Load(); t != nil {
		return *t, true
	}
	return time.Time{}, false
}

// warn says that the certificate will end soon.
func (c *Cert) warn(left time.Duration) {
	if c.o.Logger == nil || left >= c.o.MinRemaining {
		return
	}
	c.o.Logger.Warn("auth.certificate", slog.String("reason", fmt.Sprintf("the client certificate ends in %v, which is less than %s (%v): replace %s and %s",
		left.Round(time.Second), fieldMinimum, c.o.MinRemaining, fieldCert, fieldKey)))
}

// present reads the certificate and returns the way to make one request that
// presents it.
func (c *Cert) present() (useFunc, error) {
	certificate, notAfter, err := c.o.read(time.Now())
	if err != nil {
		return nil, err
	}
	c.notAfter.Store(&notAfter)
	c.warn(time.Until(notAfter))
	return func(ctx context.Context, op openbao.Operation, fn func(context.Context, *api.Client) (*api.Secret, error)) (*api.Secret, error) {
		return c.conn.UseCertificate(ctx, op, certificate, fn)
	}, nil
}
