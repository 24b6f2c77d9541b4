package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// OpenBaoEnv is the environment variable that names the `bao` binary to use for Transit instead of the built server (design: testing).
const OpenBaoEnv = "OPENBAO_BIN"

// Binaries are the absolute paths of the servers.
type Binaries struct {
	// Transit is the server of `make servers`, or the OpenBao that OPENBAO_BIN names.
	Transit string
	// TransitIsOpenBao says that Transit is a real OpenBao.
	TransitIsOpenBao bool
	Etcd             string
	APIServer        string
	// Kubectl is no server, but what people talk to one with.
	Kubectl string
	// Root is the root of the module.
	Root string
}

// Find looks for the servers in bin/servers under the root of the module that the working directory is in. When one is not there the
// error says so and what to run; the others are set.
func Find() (Binaries, error) {
	root, err := moduleRoot()
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(root, "bin", "servers")
	b := Binaries{
		Root:      root,
		Transit:   filepath.Join(dir, "transit"),
		Etcd:      filepath.Join(dir, "etcd"),
		APIServer: filepath.Join(dir, "kube-apiserver"),
		Kubectl:   filepath.Join(dir, "kubectl"),
	}
	if bao := openBaoBinary(root); bao != "" {
		b.Transit, b.TransitIsOpenBao = bao, true
	}
	var errs []error
	for _, path := range []string{b.Transit, b.Etcd, b.APIServer, b.Kubectl} {
		errs = append(errs, executable(path))
	}
	return b, errors.Join(errs...)
}

// executable explains what to do about a server that cannot be run.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil && isOpenBao(path):
		return fmt.Errorf("the OpenBao that %s names cannot be used: %w", OpenBaoEnv, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the server %s is not built: run make servers", filepath.Base(path))
	case err != nil:
		return fmt.Errorf("looking for the server %s: %w", filepath.Base(path), err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}

// need returns the path that the caller chose, or the one that Find found; only this server has to be there.
func need(chosen string, pick func(Binaries) string) (string, error) {
	if chosen == "" {
		b, err := Find()
		if b.Root == "" {
			return "", err
		}
		chosen = pick(b)
	}
	return chosen, executable(chosen)
}

// moduleRoot is the nearest folder upwards that has both go.mod and test/servers.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		_, modErr := os.Stat(filepath.Join(dir, "go.mod"))
		_, serversErr := os.Stat(filepath.Join(dir, "test", "servers"))
		if modErr == nil && serversErr == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no module with test/servers here or above: run it inside the checkout")
		}
		dir = parent
	}
}
