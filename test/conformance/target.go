package conformance

import (
	"context"
	"testing"
	"time"
)

// Target is what the suite is held against. Socket is required. Every function may be nil: then the target does not have that capability,
// and the cases that need it are not part of the run.
type Target struct {
	// Socket is the path of the KMS v2 socket.
	Socket string
	// Contract holds the target to this project's own contract too: the codes and fixed texts of the error policy, the forms of key_id
	// and annotations, the 65536 bytes of a message (design: kms-service, identity). Without it, what must be refused must be refused
	// somehow.
	Contract bool

	// Seen returns the paths of all requests that OpenBao has seen from anybody, in order. The cases that count with it expect the
	// provider to be quiet: no probe falls into their time.
	Seen func() ([]string, error)
	// Fresh starts another provider with an OpenBao and a key of its own. It lives as long as t and has at least the capabilities of
	// this target.
	Fresh func(t *testing.T, s Settings) Target
	// Peer starts another provider on this target's OpenBao and key, as another node of the same cluster.
	Peer func(t *testing.T, s Settings) Target
	// Rotate makes a new version of the key.
	Rotate func(ctx context.Context) error
	// AllowUpsert turns the mount's disable_upsert off (true) or on again.
	AllowUpsert func(ctx context.Context, allowed bool) error
	// RevokeTokens revokes the provider's token in OpenBao. It may log in again.
	RevokeTokens func(ctx context.Context) error
	// Break takes something away from the provider for good.
	Break func(ctx context.Context, o Outage) error
	// Hold keeps requests to OpenBao waiting whose path contains part, as many as times says, any number when it is negative.
	Hold func(part string, times int) Held
	// Answer answers the next so many requests to OpenBao whose path contains part in its place.
	Answer func(part string, times, status int, body string)
	// Metrics is the text of the provider's metrics.
	Metrics func(ctx context.Context) (string, error)
	// Output is everything that the provider has logged, exported and stored so far.
	Output func(ctx context.Context) (string, error)
	// Secrets must not be in Output, nor in an error: raw paths, key names, credentials.
	Secrets []string
}

// Held are requests that wait.
type Held interface {
	// Await waits until exactly so many wait.
	Await(ctx context.Context, n int) error
	// Release lets them and all later ones go on.
	Release()
}

// Outage is something that can be taken away from a provider.
type Outage int

// The outages.
const (
	// Sealed is a sealed OpenBao.
	Sealed Outage = iota
	// Stopped is an OpenBao that nothing listens for.
	Stopped
	// KeyDeleted is a Transit key that no longer exists.
	KeyDeleted
	// PolicyNarrowed is a policy that allows neither encrypt nor decrypt.
	PolicyNarrowed
	// LoginRefused is a revoked token and a role that refuses the provider's credential.
	LoginRefused
	// RateLimited is a quota on the mount that is used up for longer than a test.
	RateLimited
)

// Settings are how a provider is started for a case. Zero fields are: probes so rare that none falls into a test, the documented
// defaults for the rest.
type Settings struct {
	// Quick probes metadata about every quarter of a second and promotes a rotated key within about two seconds.
	Quick bool
	// MaxStaleness is status.statusMaxStaleness; it needs Quick.
	MaxStaleness time.Duration
	// OpenBaoTimeout is openbao.timeout.
	OpenBaoTimeout time.Duration
	// Cluster is transit.keyIdScope.clusterId.
	Cluster string
	// MaxEncrypt and MaxDecrypt are the caps on active handlers.
	MaxEncrypt, MaxDecrypt int
}

// Parts of the paths of Transit's API.
const (
	pathEncrypt  = "/encrypt/"
	pathDecrypt  = "/decrypt/"
	pathMetadata = "/keys/"
)
