package stack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"
)

// Where things are in a Transit that was set up, unless the options say otherwise.
const (
	DefaultMount = "transit-kms"
	DefaultKey   = "kubernetes-secrets"
	// JWTMount is the login mount, with auth/ as a provider's configuration wants it.
	JWTMount = "auth/jwt-kms"
	// JWTRole is the role to log in with.
	JWTRole = "kms-provider"
	// CertMount is the login mount that EnableCertLogin makes.
	CertMount = "auth/cert-kms"
	// PolicyName is the policy that a login gets.
	PolicyName = "kms-provider"
)

// LeastPrivilegePolicy is what a provider needs and no more (design: openbao).
func LeastPrivilegePolicy(mount, key string) string {
	rules := []struct{ path, capability string }{
		{mount + "/keys/" + key, "read"},
		{mount + "/config/keys", "read"},
		{mount + "/encrypt/" + key, "update"},
		{mount + "/decrypt/" + key, "update"},
		{"sys/capabilities-self", "update"},
	}
	var text string
	for _, r := range rules {
		text += fmt.Sprintf("path %q {\n  capabilities = [%q]\n}\n", r.path, r.capability)
	}
	return text
}

// jwtRole is what the role was last written with.
type jwtRole struct {
	mu     sync.Mutex
	fields map[string]any
}

// change changes fields and returns a copy of all.
func (r *jwtRole) change(fields map[string]any) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.fields, fields)
	return maps.Clone(r.fields)
}

// defaultRole is the JWT role: tokens live for an hour and can be renewed up to a day. They have the server's own `default` policy too,
// as tokens do unless a role says otherwise: it is what lets a token renew itself.
func defaultRole() map[string]any {
	return map[string]any{
		"role_type":       "jwt",
		"user_claim":      "sub",
		"bound_audiences": []string{JWTAudience},
		"bound_subject":   JWTSubject,
		"token_policies":  []string{PolicyName},
		"token_ttl":       "1h",
		"token_max_ttl":   "24h",
	}
}

// setup mounts and writes all that a provider needs.
func (t *Transit) setup(ctx context.Context) error {
	if !t.options.NoAudit {
		if err := t.enableAudit(ctx); err != nil {
			return err
		}
	}
	mount := map[string]any{"type": "transit"}
	if err := t.Root().Do(ctx, http.MethodPost, "sys/mounts/"+t.options.Mount, mount, nil); err != nil {
		return fmt.Errorf("mounting the Transit engine: %w", err)
	}
	if err := t.CreateKey(ctx, t.options.Key, map[string]any{"type": t.options.KeyType}); err != nil {
		return err
	}
	if err := t.AllowUpsert(ctx, false); err != nil {
		return err
	}
	if err := t.WritePolicy(ctx, PolicyName, t.options.Policy); err != nil {
		return err
	}
	return t.setupJWT(ctx)
}

func (t *Transit) setupJWT(ctx context.Context) error {
	if err := t.Root().Do(ctx, http.MethodPost, "sys/"+JWTMount, map[string]any{"type": "jwt"}, nil); err != nil {
		return fmt.Errorf("mounting the JWT login: %w", err)
	}
	if err := t.TrustIssuers(ctx, t.issuer); err != nil {
		return err
	}
	return t.UpdateRole(ctx, nil)
}

// TrustIssuers makes the JWT login accept JWTs of these issuers only.
func (t *Transit) TrustIssuers(ctx context.Context, issuers ...*Issuer) error {
	var keys []string
	for _, i := range issuers {
		pub, err := i.PublicKeyPEM()
		if err != nil {
			return err
		}
		keys = append(keys, pub)
	}
	config := map[string]any{"jwt_validation_pubkeys": keys, "bound_issuer": JWTIssuer}
	if err := t.Root().Do(ctx, http.MethodPost, JWTMount+"/config", config, nil); err != nil {
		return fmt.Errorf("configuring the JWT login: %w", err)
	}
	return nil
}

// Issuer is whose JWTs the login accepts.
func (t *Transit) Issuer() *Issuer { return t.issuer }

// MintJWT signs a JWT that the role accepts, changed by overrides as Issuer.Mint says.
func (t *Transit) MintJWT(overrides map[string]any) (string, error) { return t.issuer.Mint(overrides) }

// WriteJWT writes a new JWT to a file, mode 0600, replacing it as a whole.
func (t *Transit) WriteJWT(file string, overrides map[string]any) error {
	jwt, err := t.issuer.Mint(overrides)
	if err != nil {
		return err
	}
	return writeFile(file, []byte(jwt+"\n"))
}

// UpdateRole changes fields of the JWT role, such as token_ttl, token_max_ttl, token_type or token_num_uses. Fields keep what an earlier
// call gave them.
func (t *Transit) UpdateRole(ctx context.Context, fields map[string]any) error {
	if err := t.Root().Do(ctx, http.MethodPost, JWTMount+"/role/"+JWTRole, t.role.change(fields), nil); err != nil {
		return fmt.Errorf("writing the JWT role: %w", err)
	}
	return nil
}

// EnableCertLogin mounts login by client certificate at CertMount, with one role, called JWTRole too, that trusts the CA and gives the
// provider's policy.
func (t *Transit) EnableCertLogin(ctx context.Context, ca *CA) error {
	if err := t.Root().Do(ctx, http.MethodPost, "sys/"+CertMount, map[string]any{"type": "cert"}, nil); err != nil {
		return fmt.Errorf("mounting the certificate login: %w", err)
	}
	return t.UpdateCertRole(ctx, ca, nil)
}

// UpdateCertRole writes the role of EnableCertLogin again: the CA that it trusts, and fields such as token_ttl over the defaults.
func (t *Transit) UpdateCertRole(ctx context.Context, ca *CA, fields map[string]any) error {
	pem, err := os.ReadFile(ca.CertFile())
	if err != nil {
		return fmt.Errorf("reading the CA for the certificate login: %w", err)
	}
	role := map[string]any{
		"certificate": string(pem), "token_policies": []string{PolicyName}, "token_ttl": "1h", "token_max_ttl": "24h",
	}
	maps.Copy(role, fields)
	if err := t.Root().Do(ctx, http.MethodPost, CertMount+"/certs/"+JWTRole, role, nil); err != nil {
		return fmt.Errorf("writing the certificate role: %w", err)
	}
	return nil
}

// Login is what a login gave.
type Login struct {
	Token     string
	Accessor  string
	TTL       time.Duration
	Renewable bool
}

// LoginJWT logs in as a provider does.
func (t *Transit) LoginJWT(ctx context.Context, jwt string) (Login, error) {
	var answer struct {
		Auth struct {
			ClientToken   string `json:"client_token"`
			Accessor      string `json:"accessor"`
			LeaseDuration int    `json:"lease_duration"`
			Renewable     bool   `json:"renewable"`
		} `json:"auth"`
	}
	in := map[string]any{"role": JWTRole, "jwt": jwt}
	if err := t.Root().With("").Do(ctx, http.MethodPost, JWTMount+"/login", in, &answer); err != nil {
		return Login{}, fmt.Errorf("logging in with a JWT: %w", err)
	}
	return Login{
		Token: answer.Auth.ClientToken, Accessor: answer.Auth.Accessor,
		TTL: time.Duration(answer.Auth.LeaseDuration) * time.Second, Renewable: answer.Auth.Renewable,
	}, nil
}
