package stack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// User is somebody who talks to an API server through a kubeconfig.
type User struct {
	// Token is what the user signs in with; empty is an administrator, with the client certificate.
	Token string
	// Namespace is the one of commands that name none; empty is default.
	Namespace string
}

// WriteKubeconfig writes a kubeconfig for a user, mode 0600.
func (a *APIServer) WriteKubeconfig(file string, u User) error {
	who := &clientcmdapi.AuthInfo{ClientCertificate: a.admin.CertFile, ClientKey: a.admin.KeyFile}
	if u.Token != "" {
		who = &clientcmdapi.AuthInfo{Token: u.Token}
	}
	const name = "stack"
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: a.URL(), CertificateAuthority: a.options.CA.CertFile()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: who},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: or(u.Namespace, "default")}},
		CurrentContext: name,
	})
	if err != nil {
		return fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return writeFile(file, raw)
}

// Kubectl runs kubectl as a user of an API server. It is safe for concurrent use.
type Kubectl struct {
	binary, home, kubeconfig string
}

// NewKubectl writes a kubeconfig for a user into dir, which is made when it is not there, and is kubectl's home directory. binary is
// kubectl; empty takes the one that Find finds.
func NewKubectl(a *APIServer, dir, binary string, u User) (*Kubectl, error) {
	binary, err := need(binary, func(b Binaries) string { return b.Kubectl })
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making kubectl's directory: %w", err)
	}
	k := &Kubectl{binary: binary, home: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	return k, a.WriteKubeconfig(k.kubeconfig, u)
}

// Kubeconfig is the path of the user's kubeconfig.
func (k *Kubectl) Kubeconfig() string { return k.kubeconfig }

// Run runs kubectl with these arguments and returns what it printed. When it fails the error holds what it complained of.
func (k *Kubectl) Run(ctx context.Context, args ...string) (string, error) {
	return k.RunWith(ctx, "", args...)
}

// RunWith is Run with something on standard input, for `-f -`.
func (k *Kubectl) RunWith(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.binary, args...)
	// What whoever runs this has configured for kubectl must not reach it.
	cmd.Env = append(os.Environ(), "HOME="+k.home, "KUBECONFIG="+k.kubeconfig, "KUBECACHEDIR=", "KUBERC=off")
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, lastLines(stderr.String(), 10))
	}
	return stdout.String(), nil
}
