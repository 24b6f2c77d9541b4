package stack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// APIServerOptions say how an API server is started. Etcd and Dir are required. Several API servers can share an etcd; give them the
// same CA, so that they also share clients and service-account tokens.
type APIServerOptions struct {
	Etcd *Etcd
	// Dir is where its certificates and log are; it is made when it is not there.
	Dir string
	// CA issues its certificate and its clients'; nil makes one in Dir.
	CA *CA
	// Binary is the server; empty takes the one that Find finds.
	Binary string
	// EncryptionConfig is the path of an EncryptionConfiguration; empty leaves objects unencrypted.
	EncryptionConfig string
	// ReadyPath is what must answer 200 for the server to count as started; empty is /readyz, which includes its KMS providers.
	// "/livez/ping" is for a server that is meant to run with a provider down.
	ReadyPath string
	// Flags are added to the command line and win over the flags set here.
	Flags []string
}

// APIServer is one kube-apiserver with RBAC, and an administrator's client certificate. Methods that start or stop it must not run at the
// same time as others.
type APIServer struct {
	*Process
	options APIServerOptions
	port    []int
	serving Pair
	admin   Pair
	tokens  Pair
	client  *kubernetes.Clientset
	rest    rest.Interface
}

// StartAPIServer starts an API server and waits until it is ready.
func StartAPIServer(ctx context.Context, o APIServerOptions) (*APIServer, error) {
	var err error
	if o.Binary, err = need(o.Binary, func(b Binaries) string { return b.APIServer }); err != nil {
		return nil, err
	}
	if o.Etcd == nil || o.Dir == "" {
		return nil, errors.New("starting an API server: Etcd or Dir is missing")
	}
	o.ReadyPath = or(o.ReadyPath, "/readyz")
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the API server's directory: %w", err)
	}
	if o.CA == nil {
		if o.CA, err = NewCA(filepath.Join(o.Dir, "ca")); err != nil {
			return nil, err
		}
	}
	a := &APIServer{options: o}
	if err := a.certificates(); err != nil {
		return nil, err
	}
	err = withPorts(1, func(ports []int) error {
		a.port = ports
		if err := a.connect(); err != nil {
			return err
		}
		return a.launch(ctx)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// certificates issues what the server needs; what servers of one CA must share is issued once.
func (a *APIServer) certificates() error {
	var err error
	// Servers of one CA have serving certificates of their own, told apart by their directories.
	serving := fmt.Sprintf("kube-apiserver-%x", sha256.Sum256([]byte(a.options.Dir)))[:31]
	if a.serving, err = a.options.CA.server(serving); err != nil {
		return err
	}
	admin := CertRequest{CommonName: "admin", Organizations: []string{"system:masters"}}
	if a.admin, err = a.options.CA.once("kubernetes-admin", admin); err != nil {
		return err
	}
	a.tokens, err = a.options.CA.once("service-accounts", CertRequest{CommonName: "service accounts"})
	return err
}

// connect makes the clients for the port.
func (a *APIServer) connect() error {
	var err error
	if a.client, err = kubernetes.NewForConfig(a.RESTConfig()); err != nil {
		return fmt.Errorf("making the API server's client: %w", err)
	}
	a.rest = a.client.Discovery().RESTClient()
	return nil
}

// apiServerStarts bounds how many API servers start at the same time. A start takes two processors for seconds, and an API server ends by
// itself when it gets too little of them for too long.
var apiServerStarts = make(chan struct{}, 2)

func (a *APIServer) launch(ctx context.Context) error {
	select {
	case apiServerStarts <- struct{}{}:
		defer func() { <-apiServerStarts }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for other API servers to start: %w", ctx.Err())
	}
	p, err := launch(command{
		name: "kube-apiserver", path: a.options.Binary, args: append(a.flags(), a.options.Flags...),
		logFile: filepath.Join(a.options.Dir, "kube-apiserver.log"),
	})
	if err != nil {
		return err
	}
	a.Process = p
	err = until(ctx, p, "the API server is ready", func(ctx context.Context) error {
		status, body, err := a.Check(ctx, a.options.ReadyPath)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s answers %d: %s", a.options.ReadyPath, status, lastLines(body, 40))
		}
		return err
	})
	if err != nil {
		p.Kill()
	}
	return err
}

func (a *APIServer) flags() []string {
	flags := []string{
		"--etcd-servers=" + a.options.Etcd.Endpoint(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", a.port[0]),
		"--tls-cert-file=" + a.serving.CertFile, "--tls-private-key-file=" + a.serving.KeyFile,
		"--client-ca-file=" + a.options.CA.CertFile(),
		"--authorization-mode=RBAC", "--anonymous-auth=false",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + a.tokens.CertFile, "--service-account-signing-key-file=" + a.tokens.KeyFile,
		"--service-cluster-ip-range=10.0.0.0/24",
		// Nothing runs pods here: no endpoints to keep, no service account to wait for.
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
		"--profiling=false", "--event-ttl=1h",
	}
	if a.options.EncryptionConfig != "" {
		flags = append(flags, "--encryption-provider-config="+a.options.EncryptionConfig)
	}
	return flags
}

// Check asks a health path such as /readyz?verbose or /healthz/kms-providers and returns the status and the body.
func (a *APIServer) Check(ctx context.Context, path string) (int, string, error) {
	var status int
	result := a.rest.Get().RequestURI(path).MaxRetries(0).Do(ctx).StatusCode(&status)
	body, err := result.Raw()
	if status != 0 {
		// The server answered; the client calls every answer that is no success an error.
		return status, string(body), nil
	}
	return 0, "", fmt.Errorf("asking the API server for %s: %w", path, err)
}

// Restart stops the server when it runs and starts it again on the same port.
func (a *APIServer) Restart(ctx context.Context) error {
	if err := a.Stop(); err != nil {
		return err
	}
	return a.launch(ctx)
}

// URL is the server's URL, https://127.0.0.1:PORT; it stays the same over restarts.
func (a *APIServer) URL() string { return "https://" + loopback(a.port[0]) }

// RESTConfig is the configuration of an administrator's client, from files, so that it can be printed. It sets no limit that a test meets.
func (a *APIServer) RESTConfig() *rest.Config {
	return &rest.Config{
		Host:  a.URL(),
		QPS:   1000,
		Burst: 2000,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: a.options.CA.CertFile(), CertFile: a.admin.CertFile, KeyFile: a.admin.KeyFile,
		},
	}
}

// Client is an administrator's client.
func (a *APIServer) Client() kubernetes.Interface { return a.client }
