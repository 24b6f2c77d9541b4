package stack

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// socketPathLimit is the longest path of a Unix socket, in bytes.
const socketPathLimit = 107

// ProviderConfig says what to write for one provider. The zero value is usable.
type ProviderConfig struct {
	// Fields replace or add fields, named as the configuration's documentation does ("status.probeInterval"); nil removes one
	// (design: config-and-cli).
	Fields map[string]any
	// Claims change the JWT as Issuer.Mint says.
	Claims map[string]any
}

// ProviderFiles are the absolute paths of what belongs to one provider.
type ProviderFiles struct {
	Dir    string
	Config string
	// Socket is the KMS socket, ReportSocket the node report's; each has a directory of its own.
	Socket       string
	ReportSocket string
	State        string
	JWT          string
	// Log gets everything that the provider prints.
	Log string
	// MetricsAddress and HealthAddress are loopback addresses with ports of this provider's own.
	MetricsAddress string
	HealthAddress  string
}

// What a provider's key identity is made of unless Fields say otherwise. Providers of one fleet share it.
const (
	ProviderName = "openbao-kms-stack"
	ClusterID    = "stack-cluster"
)

// WriteProviderConfig writes a configuration and a JWT for a provider of t into dir, and makes its directories: configuration and JWT
// have mode 0600, directories 0700. Probes are quick, so that tests do not wait; everything else has its default. dir must be short
// enough for a socket's path.
func WriteProviderConfig(dir string, t *Transit, c ProviderConfig) (ProviderFiles, error) {
	f, err := providerFiles(dir)
	if err != nil {
		return ProviderFiles{}, err
	}
	if err := t.WriteJWT(f.JWT, c.Claims); err != nil {
		return ProviderFiles{}, err
	}
	return f, f.WriteConfig(t, c.Fields)
}

// WriteConfig writes the configuration file again with other fields.
func (f ProviderFiles) WriteConfig(t *Transit, fields map[string]any) error {
	all := f.defaults(t)
	maps.Copy(all, fields)
	tree := map[string]any{}
	for path, value := range all {
		if value != nil {
			put(tree, strings.Split(path, "."), value)
		}
	}
	raw, err := yaml.Marshal(tree)
	if err != nil {
		return fmt.Errorf("encoding the provider's configuration: %w", err)
	}
	return writeFile(f.Config, raw)
}

func providerFiles(dir string) (ProviderFiles, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ProviderFiles{}, fmt.Errorf("finding the provider's directory: %w", err)
	}
	f := ProviderFiles{
		Dir:          dir,
		Config:       filepath.Join(dir, "config.yaml"),
		Socket:       filepath.Join(dir, "run", "kms.sock"),
		ReportSocket: filepath.Join(dir, "report", "report.sock"),
		State:        filepath.Join(dir, "state", "key-registry.json"),
		JWT:          filepath.Join(dir, "jwt"),
		Log:          filepath.Join(dir, "provider.log"),
	}
	if n := len(f.ReportSocket); n > socketPathLimit {
		return ProviderFiles{}, fmt.Errorf("the provider's directory is too long: a socket's path would have %d bytes, %d are allowed", n, socketPathLimit)
	}
	for _, d := range []string{dir, filepath.Dir(f.Socket), filepath.Dir(f.ReportSocket), filepath.Dir(f.State)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return ProviderFiles{}, fmt.Errorf("making a directory of the provider: %w", err)
		}
	}
	free, err := ownPorts.free(2)
	if err != nil {
		return ProviderFiles{}, err
	}
	f.MetricsAddress, f.HealthAddress = loopback(free[0]), loopback(free[1])
	return f, nil
}

// defaults are the fields of a configuration for a provider of t.
func (f ProviderFiles) defaults(t *Transit) map[string]any {
	return map[string]any{
		"configVersion":                          "v1alpha1",
		"server.socketPath":                      f.Socket,
		"server.socketGroup":                     strconv.Itoa(os.Getgid()),
		"server.metricsAddress":                  f.MetricsAddress,
		"server.healthAddress":                   f.HealthAddress,
		"server.reportSocketPath":                f.ReportSocket,
		"openbao.address":                        t.Address(),
		"openbao.caCertFile":                     t.CAFile(),
		"openbao.tlsServerName":                  t.ServerName(),
		"openbao.instanceId":                     "stack-openbao",
		"auth.method":                            "jwt",
		"auth.jwt.mountPath":                     JWTMount,
		"auth.jwt.role":                          JWTRole,
		"auth.jwt.jwtFile":                       f.JWT,
		"transit.mountPath":                      t.Mount(),
		"transit.keyName":                        t.Key(),
		"transit.keyIdScope.providerName":        ProviderName,
		"transit.keyIdScope.clusterId":           ClusterID,
		"transit.keyIdScope.transitMountId":      "stack-mount",
		"transit.keyIdScope.keyLineageId":        "stack-lineage",
		"state.path":                             f.State,
		"status.probeInterval":                   "1s",
		"rotation.activationDelay":               "2s",
		"rotation.requireStableObservationCount": 2,
	}
}

// put sets a value in a tree of maps, making the maps on its way.
func put(tree map[string]any, path []string, value any) {
	for len(path) > 1 {
		next, ok := tree[path[0]].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[path[0]] = next
		}
		tree, path = next, path[1:]
	}
	tree[path[0]] = value
}
