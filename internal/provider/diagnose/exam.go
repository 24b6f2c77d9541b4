package diagnose

import (
	"context"
	"time"

	"github.com/baokms/baokms/internal/provider/backend"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/openbao"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/transit"
	"github.com/baokms/baokms/internal/provider/version"
)

// Options say what is examined.
type Options struct {
	// ConfigPath is the configuration file. Required.
	ConfigPath string
	// Getenv reads the environment. Required.
	Getenv func(string) string
	// EncryptionConfig is the path of the API server's EncryptionConfiguration;
	// empty leaves it out.
	EncryptionConfig string
	// Build is this binary's.
	Build version.Info
	// Now is the clock; nil is the system's.
	Now func() time.Time
}

// exam is one examination: what its checks have found out so far. A field is set
// by the check that is named beside it; a check that needs one names that check
// in its needs. One goroutine owns it.
type exam struct {
	o   Options
	now func() time.Time

	config *config.Config   // config.valid
	way    *backend.Backend // config.valid opens it; wayErr says why it could not
	wayErr error
	health *openbao.Health // openbao.reachable: nil without an answer; healthErr says why
	// healthErr is set beside a nil health.
	healthErr error
	token     openbao.Secret // auth.login
	// lacking are the purposes that the token's policy does not allow: auth.policy.
	lacking []string

	key      *transit.Key      // transit.key
	metadata registry.Metadata // transit.key: the same as the registry takes it
	// readKey reads the key's metadata: config.valid sets it beside way.
	readKey        func(context.Context) (transit.Key, error)
	upsertDisabled *bool // transit.upsert

	// mustServe: a node that has state, or whose API server is told to use the
	// provider, needs one that runs. Doctor sets it.
	mustServe bool

	state *stateFiles // registry.state or registry.checkpoint, whichever comes first
	// registry is what the files hold; without any, and where a first start would
	// make one, the one that it would make, and fresh is set.
	registry *registry.Registry // registry.state
	fresh    bool
	// interrupted: the state file is the direct successor of its checkpoint, so a
	// save is under way or was cut short.
	interrupted bool
	// checkpointErr is what is wrong with the checkpoint alone.
	checkpointErr error

	encryption *encryptionLook // encryptionconfig.provider or .identity, whichever comes first

	running *running // socket.kms: nil when no provider serves the socket
}

// running is what the provider that serves the socket answers.
type running struct {
	healthz, keyID, version string
}

func newExam(o Options) *exam {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &exam{o: o, now: o.Now}
}

// close drops the token and the connections.
func (e *exam) close() {
	if e.way != nil {
		e.way.Close()
	}
}

// rules are those of the configuration.
func (e *exam) rules() registry.Rules {
	return registry.Rules{
		StableObservations: e.config.Rotation.StableObservationCount,
		RejectRollback:     e.config.Rotation.RejectVersionRollback,
	}
}

// provider says whose report it is; nil without a valid configuration.
func (e *exam) provider() *command.Provider {
	if e.config == nil {
		return nil
	}
	return &command.Provider{
		Name:        e.config.Transit.KeyIDScope.ProviderName,
		Version:     e.o.Build.Version,
		Fingerprint: e.config.Fingerprint(),
	}
}
