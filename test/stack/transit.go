package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// logFile, in a server's directory, gets all that it prints.
const logFile = "transit.log"

// TransitServerName is the name in Transit's certificate, beside localhost and the loopback addresses.
const TransitServerName = "openbao.stack.test"

// TransitOptions say how Transit is started and set up. The zero value of everything but Dir is usable.
type TransitOptions struct {
	// Dir is where its data, configuration, audit log and certificates are; it is made when it is not there.
	Dir string
	// CA issues its certificate; nil makes one in Dir.
	CA *CA
	// Binary is the server; empty takes the one that Find finds, so OPENBAO_BIN where that is set.
	Binary string
	// Storage is raft or file; empty takes what suits the binary.
	Storage Storage
	// Mount and Key are where the Transit engine is mounted and the name of its key; empty is DefaultMount and DefaultKey.
	Mount string
	Key   string
	// KeyType is the key's type; empty is aes256-gcm96, the one of the profile (design: openbao).
	KeyType string
	// Policy is the text of the policy that logins get; empty is LeastPrivilegePolicy for Mount and Key.
	Policy string
	// NoAudit leaves the audit device out, for benchmarks: Requests and Audited then answer an error.
	NoAudit bool
	// NoSetup stops after unsealing: nothing is mounted.
	NoSetup bool

	// raftPatience multiplies raft's timeouts; 0 is 1, for one server, which elects itself.
	raftPatience int
}

// Transit is one server with a Transit key, a policy and a JWT role (design: openbao), and the root token to administer it. Methods that
// start, stop, seal or unseal it must not run at the same time as each other; the others may run at any time.
type Transit struct {
	options TransitOptions
	openBao bool
	// nodeID is the server's name in its raft cluster, which clustered says it shares with others: it is then fine as a standby too.
	nodeID    string
	clustered bool
	ports     []int
	issuer    *Issuer
	// unsealKey is the one key share, base64.
	unsealKey string
	// role and audit are one for all servers of a cluster.
	role  *jwtRole
	audit *auditLog

	// mu guards what follows.
	mu   sync.Mutex
	proc *Process
	root *Client
}

// StartTransit starts a new server in Dir, which must not hold an older one, initialises it with one key share, unseals it and sets it
// up: the Transit engine with its key and upsert disabled, JWT login with a role, the policy, and a file audit device.
func StartTransit(ctx context.Context, o TransitOptions) (*Transit, error) {
	t, err := newTransit(o)
	if err != nil {
		return nil, err
	}
	if err := withPorts(2, func(ports []int) error { t.ports = ports; return t.launch(ctx) }); err != nil {
		return nil, err
	}
	start := func() error {
		if err := t.initialise(ctx); err != nil {
			return err
		}
		if err := t.Unseal(ctx); err != nil {
			return err
		}
		if t.options.NoSetup {
			return nil
		}
		return t.setup(ctx)
	}
	if err := start(); err != nil {
		err = fmt.Errorf("%w\nthe end of the log of transit:\n%s", err, lastLines(t.Logs(), 15))
		t.Kill()
		return nil, err
	}
	return t, nil
}

// newTransit fills in what the options leave out and makes the directory, the certificate and the client.
func newTransit(o TransitOptions) (*Transit, error) {
	binary, err := need(o.Binary, func(b Binaries) string { return b.Transit })
	if err != nil {
		return nil, err
	}
	o.Binary = binary
	openBao := isOpenBao(binary)
	if o.Dir == "" {
		return nil, errors.New("starting Transit: Dir is empty")
	}
	o.Storage = or(o.Storage, defaultStorage(openBao))
	o.Mount = or(o.Mount, DefaultMount)
	o.Key = or(o.Key, DefaultKey)
	o.KeyType = or(o.KeyType, "aes256-gcm96")
	o.Policy = or(o.Policy, LeastPrivilegePolicy(o.Mount, o.Key))
	if err := os.MkdirAll(filepath.Join(o.Dir, "data"), 0o700); err != nil {
		return nil, fmt.Errorf("making Transit's directory: %w", err)
	}
	if o.CA == nil {
		if o.CA, err = NewCA(filepath.Join(o.Dir, "ca")); err != nil {
			return nil, err
		}
	}
	issuer, err := NewIssuer()
	if err != nil {
		return nil, err
	}
	return &Transit{
		options: o, openBao: openBao, nodeID: "node-1", issuer: issuer,
		role:  &jwtRole{fields: defaultRole()},
		audit: &auditLog{file: filepath.Join(o.Dir, "audit.log")},
	}, nil
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// launch runs the server on its ports and waits until it answers; whether it is sealed does not matter.
func (t *Transit) launch(ctx context.Context) error {
	pair, err := t.options.CA.server("transit-"+t.nodeID, TransitServerName)
	if err != nil {
		return err
	}
	raw, err := t.serverConfig(pair)
	if err != nil {
		return err
	}
	configFile := filepath.Join(t.options.Dir, "server.json")
	if err := writeFile(configFile, raw); err != nil {
		return err
	}
	c := serverCommand(t.options.Binary, configFile)
	c.logFile = filepath.Join(t.options.Dir, logFile)
	p, err := launch(c)
	if err != nil {
		return err
	}
	t.mu.Lock()
	token := ""
	if t.root != nil {
		token = t.root.token
		t.root.http.CloseIdleConnections()
	}
	t.root = &Client{base: t.Address(), token: token, http: newHTTPClient(t.options.CA, TransitServerName)}
	t.proc = p
	t.mu.Unlock()
	err = until(ctx, p, "Transit answers", func(ctx context.Context) error {
		_, err := t.health(ctx)
		return err
	})
	if err != nil {
		p.Kill()
	}
	return err
}

// health is the status of sys/health: 200 active, 429 standby, 501 not initialised, 503 sealed.
func (t *Transit) health(ctx context.Context) (int, error) {
	err := t.Root().With("").Do(ctx, http.MethodGet, "sys/health", nil, nil)
	var said *APIError
	if errors.As(err, &said) {
		return said.Status, nil
	}
	return http.StatusOK, err
}

func (t *Transit) initialise(ctx context.Context) error {
	var answer struct {
		Keys      []string `json:"keys_base64"`
		RootToken string   `json:"root_token"`
	}
	in := map[string]any{"secret_shares": 1, "secret_threshold": 1}
	if err := t.Root().Do(ctx, http.MethodPut, "sys/init", in, &answer); err != nil {
		return fmt.Errorf("initialising Transit: %w", err)
	}
	if len(answer.Keys) != 1 || answer.RootToken == "" {
		return errors.New("initialising Transit: the answer has no key share or no root token")
	}
	t.unsealKey = answer.Keys[0]
	t.mu.Lock()
	t.root = t.root.With(answer.RootToken)
	t.mu.Unlock()
	return nil
}

// Unseal unseals the server and waits until it is active, or a standby where it belongs to a cluster.
func (t *Transit) Unseal(ctx context.Context) error {
	if err := t.Root().Do(ctx, http.MethodPut, "sys/unseal", map[string]any{"key": t.unsealKey}, nil); err != nil {
		return fmt.Errorf("unsealing Transit: %w", err)
	}
	return until(ctx, t.process(), "Transit is active", func(ctx context.Context) error {
		status, err := t.health(ctx)
		if err == nil && status != http.StatusOK && (!t.clustered || status != http.StatusTooManyRequests) {
			err = fmt.Errorf("sys/health answers %d", status)
		}
		return err
	})
}

// Seal seals the server: every call is then answered with 503.
func (t *Transit) Seal(ctx context.Context) error {
	if err := t.Root().Do(ctx, http.MethodPut, "sys/seal", nil, nil); err != nil {
		return fmt.Errorf("sealing Transit: %w", err)
	}
	return until(ctx, t.process(), "Transit is sealed", func(ctx context.Context) error {
		status, err := t.health(ctx)
		if err == nil && status != http.StatusServiceUnavailable {
			err = fmt.Errorf("sys/health answers %d", status)
		}
		return err
	})
}

// Stop ends the server in an orderly way. Its data stays.
func (t *Transit) Stop() error { return t.process().Stop() }

// Kill ends the server with SIGKILL. Its data stays.
func (t *Transit) Kill() { t.process().Kill() }

// StartSealed starts a stopped server again on the same port with the same data, and leaves it sealed.
func (t *Transit) StartSealed(ctx context.Context) error {
	if _, ended := t.process().ExitCode(); !ended {
		return errors.New("starting Transit again: it is still running")
	}
	return t.launch(ctx)
}

// RestartWithCA is Restart with a certificate that another CA has issued, as when somebody else's server answers at the address. CAFile
// and CA name the new CA then.
func (t *Transit) RestartWithCA(ctx context.Context, ca *CA) error {
	if err := t.Stop(); err != nil {
		return err
	}
	t.options.CA = ca
	return t.Restart(ctx)
}

// Restart stops the server when it runs, starts it again on the same port with the same data, and unseals it.
func (t *Transit) Restart(ctx context.Context) error {
	if err := t.Stop(); err != nil {
		return err
	}
	if err := t.StartSealed(ctx); err != nil {
		return err
	}
	return t.Unseal(ctx)
}

func (t *Transit) process() *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proc
}

// Address is the server's URL, https://127.0.0.1:PORT; it stays the same over restarts.
func (t *Transit) Address() string { return "https://" + loopback(t.ports[0]) }

// CAFile is the PEM file of the CA that the server's certificate is from.
func (t *Transit) CAFile() string { return t.options.CA.CertFile() }

// CA is the CA that the server's certificate is from.
func (t *Transit) CA() *CA { return t.options.CA }

// ServerName is the name to expect in the server's certificate.
func (t *Transit) ServerName() string { return TransitServerName }

// Mount is where the Transit engine is mounted.
func (t *Transit) Mount() string { return t.options.Mount }

// Key is the name of the key.
func (t *Transit) Key() string { return t.options.Key }

// Root is a client with the root token, to administer the server. Nothing under test may use it.
func (t *Transit) Root() *Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.root
}

// Client is a client without a token that shows these certificates, for a login by certificate.
func (t *Transit) Client(certificates ...tls.Certificate) *Client {
	return &Client{base: t.Address(), http: newHTTPClient(t.options.CA, TransitServerName, certificates...)}
}

// IsOpenBao says that the server is a real OpenBao.
func (t *Transit) IsOpenBao() bool { return t.openBao }

// Pid is the server's process id.
func (t *Transit) Pid() int { return t.process().Pid() }

// Logs is the end of what the server printed since its last start.
func (t *Transit) Logs() string { return t.process().Logs() }
