package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// All that differs between the built Transit server and a real OpenBao is in this file. Both run as `BINARY server -config=FILE` with the
// same JSON configuration, HTTP API and life cycle.

// Storage is where Transit keeps its data. Both survive a restart.
type Storage string

const (
	// StorageRaft is OpenBao's own storage; one node elects itself, about a second after each unseal.
	StorageRaft Storage = "raft"
	// StorageFile is the built server's default: it is ready at once. Newer OpenBao advises against it.
	StorageFile Storage = "file"
)

// defaultStorage is raft for a real OpenBao, whose other storages are on their way out, and the quicker file for the built server.
func defaultStorage(openBao bool) Storage {
	if openBao {
		return StorageRaft
	}
	return StorageFile
}

// serverConfig is the configuration file of the server, in the JSON form that both read.
func (t *Transit) serverConfig(tls Pair) ([]byte, error) {
	storage, ports := t.options.Storage, t.ports
	store := map[string]any{"path": filepath.Join(t.options.Dir, "data")}
	if storage == StorageRaft {
		store["node_id"] = t.nodeID
		// 1 is the quickest election; the default of 5 waits for slow networks.
		store["performance_multiplier"] = strconv.Itoa(or(t.options.raftPatience, 1))
		// How often the leader looks whether a server that joined may vote; the default of 10 s is for clusters that live for years.
		store["autopilot_reconcile_interval"] = "200ms"
		store["autopilot_update_interval"] = "200ms"
	}
	config := map[string]any{
		"storage": map[string]any{string(storage): store},
		"listener": []any{map[string]any{"tcp": map[string]any{
			"address":         loopback(ports[0]),
			"cluster_address": loopback(ports[1]),
			"tls_cert_file":   tls.CertFile,
			"tls_key_file":    tls.KeyFile,
		}}},
		"api_addr":     "https://" + loopback(ports[0]),
		"cluster_addr": "https://" + loopback(ports[1]),
		"log_level":    "info",
		// Locking memory needs a privilege that tests do not have. OpenBao no longer locks, and ignores it.
		"disable_mlock": true,
	}
	if t.openBao {
		// Since 2.4 audit devices come from the configuration file unless this allows the API to add them; older ones ignore it.
		config["unsafe_allow_api_audit_creation"] = true
	}
	raw, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of Transit: %w", err)
	}
	return raw, nil
}

// serverCommand is how a Transit server is run. OpenBao's environment variables of whoever runs the tests must not reach it.
func serverCommand(binary, configFile string) command {
	return command{
		name: "transit",
		path: binary,
		args: []string{"server", "-config=" + configFile},
		env:  []string{"BAO_ADDR=", "BAO_TOKEN=", "VAULT_ADDR=", "VAULT_TOKEN=", "BAO_API_ADDR=", "BAO_CLUSTER_ADDR="},
	}
}

// openBaoBinary is the absolute path of the OpenBao that OPENBAO_BIN names, empty when it is not set. A relative path starts at the root of
// the module: a test's working directory is its package's, and not where somebody typed the path.
func openBaoBinary(root string) string {
	bao := os.Getenv(OpenBaoEnv)
	if bao == "" || filepath.IsAbs(bao) {
		return bao
	}
	return filepath.Join(root, bao)
}

// isOpenBao says whether a binary is the OpenBao of OPENBAO_BIN.
func isOpenBao(binary string) bool {
	root, err := moduleRoot()
	return err == nil && binary == openBaoBinary(root) && binary != ""
}
