package stack

import (
	"fmt"
	"time"

	"sigs.k8s.io/yaml"
)

// EncryptionConfig is what an EncryptionConfiguration with one KMS v2 provider says.
type EncryptionConfig struct {
	// Provider is the provider's name, Socket the path of its socket.
	Provider string
	Socket   string
	// Resources are encrypted; empty is secrets.
	Resources []string
	// Timeout is for one call to the provider; 0 is 3 s.
	Timeout time.Duration
	// Identity adds the identity provider, last, so that objects written before are readable.
	Identity bool
}

// Write writes the EncryptionConfiguration to a file, mode 0600.
func (c EncryptionConfig) Write(file string) error {
	resources := c.Resources
	if len(resources) == 0 {
		resources = []string{"secrets"}
	}
	providers := []any{map[string]any{"kms": map[string]any{
		"apiVersion": "v2", "name": c.Provider, "endpoint": "unix://" + c.Socket, "timeout": or(c.Timeout, 3*time.Second).String(),
	}}}
	if c.Identity {
		providers = append(providers, map[string]any{"identity": map[string]any{}})
	}
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "EncryptionConfiguration",
		"resources":  []any{map[string]any{"resources": resources, "providers": providers}},
	})
	if err != nil {
		return fmt.Errorf("encoding the encryption configuration: %w", err)
	}
	return writeFile(file, raw)
}
