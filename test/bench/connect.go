package main

import (
	"context"
	"fmt"

	"github.com/baokms/baokms/internal/provider/backend"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/transit"
)

// way is the provider's way to Transit: the bare calls are measured through it, and the parts that are profiled use it.
type way struct {
	*backend.Backend
	config *config.Config
	key    transit.Key
}

// connect makes the way that a provider's configuration describes, logs in and reads the key. observer may be nil.
func connect(ctx context.Context, configFile string, observer openbao.Observer) (*way, error) {
	c, err := config.Load(configFile)
	if err != nil {
		return nil, err
	}
	b, err := backend.Open(c, backend.Options{Requests: observer})
	if err != nil {
		return nil, err
	}
	w := &way{Backend: b, config: c}
	if w.key, err = b.Transit.ReadKey(ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("the way to Transit: %w", err)
	}
	return w, nil
}

// binding is the identity of the key's newest version, as the provider derives it.
func (w *way) binding() (*identity.Binding, error) {
	return w.config.Scope().Bind(w.key.Latest, w.key.CreatedAtUnix[w.key.Latest])
}
