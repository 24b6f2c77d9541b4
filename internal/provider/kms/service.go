package kms

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/status"
)

// Views gives the current status view, never nil, without waiting.
// *status.Board is one.
type Views interface{ Load() *status.View }

// Transit encrypts and decrypts with exactly the version and the associated data
// of a binding. Errors carry a fault.Cause. An implementation must not keep the
// slices that it is given once it has returned, and must give its result away:
// the caller overwrites or returns it.
type Transit interface {
	Encrypt(ctx context.Context, b *identity.Binding, plaintext []byte) (ciphertext []byte, err error)
	Decrypt(ctx context.Context, b *identity.Binding, ciphertext []byte) (plaintext []byte, err error)
}

// Discoverer looks for a key_id that the registry does not know (design:
// registry, discovery). After nil the published registry may know it. An error
// says that it certainly does not (fault.KeyIDUnknown) or that nobody can say
// (fault.DiscoveryFailed, and every other cause but the context's errors).
type Discoverer interface {
	Discover(ctx context.Context, keyID string) error
}

// Observer is told of every request. Its methods are called from many
// goroutines at once, on the path of each request, and must not block. method is
// Status, Encrypt or Decrypt.
type Observer interface {
	// RequestStarted and RequestDone come in pairs. class is empty for a success.
	RequestStarted(method string)
	RequestDone(method string, code codes.Code, class fault.Class, took time.Duration)
	// RequestRejected is a request that met the method's cap and never started.
	RequestRejected(method string)
}

// Caps are the most requests of each method that are served at one time, 1 to
// 1024 each. What comes on top is refused at once.
type Caps struct{ Status, Encrypt, Decrypt int }

// defaultCaps are the handbook's.
var defaultCaps = Caps{Status: 16, Encrypt: 32, Decrypt: 64}

// maxCap is the highest cap that can be configured.
const maxCap = 1024

// Options are what a Service is made of.
type Options struct {
	Views   Views   // required
	Transit Transit // required
	// Discoverer may be nil: what the registry does not know is then unknown.
	Discoverer Discoverer
	// Observer may be nil.
	Observer Observer
	// Log gets one kms.request event a request: failures as warnings, the rest
	// for debugging. It may be nil.
	Log *slog.Logger
	// Correlate begins debug correlation of an Encrypt or a Decrypt, whose uid is
	// the caller's and of any content (design: observability, logs). Transit gets
	// the context that it returns, and the request's event the attributes, which
	// are asked for when the request has ended and only if it is logged. Either
	// may be nil: then nothing changes. A nil Correlate costs nothing.
	Correlate func(ctx context.Context, uid string) (context.Context, func() []slog.Attr)
	// Caps left zero are the handbook's: 16, 32 and 64.
	Caps Caps
	// PluginVersion is the version of the running binary; it must satisfy
	// identity.ValidPluginVersion.
	PluginVersion string
}

// Service is the KMS v2 service. Its methods are safe for concurrent use; they
// bound, count, log and recover by themselves. NewServer's server also maps what
// is wrong with a message before it is a request.
type Service struct {
	kmsapi.UnimplementedKeyManagementServiceServer

	views         Views
	transit       Transit
	discoverer    Discoverer
	observer      Observer
	log           *slog.Logger
	correlate     func(context.Context, string) (context.Context, func() []slog.Attr)
	pluginVersion string

	statusMethod, encryptMethod, decryptMethod method

	// prepared is what the last Encrypt response needed besides its ciphertext.
	// Any goroutine may replace it: it follows from the binding.
	prepared atomic.Pointer[prepared]
}

var _ kmsapi.KeyManagementServiceServer = (*Service)(nil)

// New makes a Service. It fails when a cap or the plugin version is out of
// range, and panics without Views or Transit.
func New(o Options) (*Service, error) {
	if o.Views == nil || o.Transit == nil {
		panic("kms: a Service needs Views and Transit")
	}
	if o.Caps == (Caps{}) {
		o.Caps = defaultCaps
	}
	for _, c := range []struct {
		field string
		value int
	}{
		{"server.maxConcurrentStatus", o.Caps.Status},
		{"server.maxConcurrentEncrypt", o.Caps.Encrypt},
		{"server.maxConcurrentDecrypt", o.Caps.Decrypt},
	} {
		if c.value < 1 || c.value > maxCap {
			return nil, fmt.Errorf("kms: %s is %d; set it to 1 to %d", c.field, c.value, maxCap)
		}
	}
	if !identity.ValidPluginVersion(o.PluginVersion) {
		return nil, fmt.Errorf("kms: the binary's version cannot be an annotation; build it with a version of 1 to 128 printable characters")
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		views:         o.Views,
		transit:       o.Transit,
		discoverer:    o.Discoverer,
		observer:      o.Observer,
		log:           o.Log,
		correlate:     o.Correlate,
		pluginVersion: o.PluginVersion,
	}
	s.statusMethod.init("Status", o.Caps.Status)
	s.encryptMethod.init("Encrypt", o.Caps.Encrypt)
	s.decryptMethod.init("Decrypt", o.Caps.Decrypt)
	return s, nil
}

// Status answers from the current view alone (design: kms-service, status).
func (s *Service) Status(ctx context.Context, req *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return serve(s, ctx, &s.statusMethod, req, s.status)
}

// Encrypt encrypts with the active snapshot. The request's plaintext is
// overwritten. The response's annotations are shared: they must not be changed.
func (s *Service) Encrypt(ctx context.Context, req *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	e, err := s.encrypted(ctx, req)
	if err != nil {
		return nil, err
	}
	return e.message(), nil
}

// encrypted is Encrypt for NewServer's server, whose codec knows the result.
func (s *Service) encrypted(ctx context.Context, req *kmsapi.EncryptRequest) (*encrypted, error) {
	// The decoder copied the plaintext out of gRPC's buffer into this slice, and
	// the decoded request is ours.
	defer clear(req.Plaintext)
	return serve(s, ctx, &s.encryptMethod, req, s.encrypt)
}

// Decrypt decrypts with the snapshot that the request's key_id names.
func (s *Service) Decrypt(ctx context.Context, req *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	return serve(s, ctx, &s.decryptMethod, req, s.decrypt)
}

// nobody is the Observer when there is none.
type nobody struct{}

func (nobody) RequestStarted(string)                                      {}
func (nobody) RequestDone(string, codes.Code, fault.Class, time.Duration) {}
func (nobody) RequestRejected(string)                                     {}
