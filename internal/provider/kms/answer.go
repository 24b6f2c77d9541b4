package kms

import (
	"context"
	"errors"
	"time"

	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
	"github.com/baokms/baokms/internal/provider/registry"
	"github.com/baokms/baokms/internal/provider/status"
)

// What was being done, in the words of an error.
const (
	opEncrypt = "encrypt"
	opDecrypt = "decrypt"
)

// What Status answers with (handbook: kms-v2-contract).
const (
	apiVersion = "v2"
	healthzOK  = "ok"
)

// status, encrypt and decrypt each return the answer and the binding that was
// used, as far as one was found: it is named in the log.

func (s *Service) status(_ context.Context, now time.Time, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, *identity.Binding, error) {
	verdict := s.views.Load().Judge(now)
	if !verdict.Healthy {
		// Without a key_id the API server refuses the answer, and does not extend
		// its seed under a key that may be unusable.
		return &kmsapi.StatusResponse{Version: apiVersion, Healthz: healthz(verdict)}, nil, nil
	}
	b := verdict.Active.Binding
	return &kmsapi.StatusResponse{Version: apiVersion, Healthz: healthzOK, KeyId: b.KeyID()}, b, nil
}

func healthz(v status.Verdict) string {
	if len(v.Reasons) == 0 {
		return string(status.ProbeFailed)
	}
	return string(v.Reasons[0])
}

func (s *Service) encrypt(ctx context.Context, now time.Time, req *kmsapi.EncryptRequest) (*encrypted, *identity.Binding, error) {
	if err := checkEncryptRequest(req); err != nil {
		return nil, nil, err
	}
	verdict := s.views.Load().Judge(now)
	if !verdict.Healthy {
		return nil, nil, fault.New(fault.NotHealthy, opEncrypt, "%s", healthz(verdict))
	}
	b := verdict.Active.Binding
	ciphertext, err := s.transit.Encrypt(ctx, b, req.Plaintext)
	if err != nil {
		return nil, b, err
	}
	if err := checkAnswer(ciphertext, b.Version()); err != nil {
		return nil, b, err
	}
	p, err := s.prepare(b)
	if err != nil {
		return nil, b, err
	}
	// Last, so that nothing but the send lies between this look and the answer
	// (design: overview, invariant 1).
	if s.activeKeyID() != b.KeyID() {
		return nil, b, fault.New(fault.KeyChanged, opEncrypt, "")
	}
	return &encrypted{ciphertext, p}, b, nil
}

// activeKeyID is the published active key_id, whether it is healthy or not.
func (s *Service) activeKeyID() string {
	r := s.views.Load().Registry()
	if r == nil {
		return ""
	}
	return r.Active().KeyID
}

// decrypt makes the checks in the order of design/identity. None but the last
// step, and the discovery's own read, reaches OpenBao.
func (s *Service) decrypt(ctx context.Context, _ time.Time, req *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, *identity.Binding, error) {
	if err := checkDecryptRequest(req); err != nil {
		return nil, nil, err
	}
	b, err := s.resolve(ctx, req.KeyId)
	if err != nil {
		return nil, nil, err
	}
	if err := checkAgainst(b, req); err != nil {
		return nil, b, err
	}
	plaintext, err := s.transit.Decrypt(ctx, b, req.Ciphertext)
	if err != nil {
		return nil, b, err
	}
	if err := checkPlaintext(plaintext); err != nil {
		clear(plaintext)
		return nil, b, err
	}
	// From here the plaintext is gRPC's, which encodes it after we have returned
	// and tells nobody when it is done: it cannot be overwritten.
	return &kmsapi.DecryptResponse{Plaintext: plaintext}, b, nil
}

// resolve finds the one binding that keyID names, after at most one discovery.
// A known key_id is well formed; only an unknown one needs to be parsed.
func (s *Service) resolve(ctx context.Context, keyID string) (*identity.Binding, error) {
	entry, known := s.lookup(keyID)
	if !known {
		if err := identity.ParseKeyID(keyID); err != nil {
			return nil, fault.Wrap(fault.KeyIDMalformed, opDecrypt, err)
		}
		if err := s.findOut(ctx, keyID); err != nil {
			return nil, err
		}
		entry, known = s.lookup(keyID)
	}
	// A removed identity is known and stays removed: no discovery is made for it.
	if !known || !entry.Decrypts() {
		return nil, fault.New(fault.KeyIDUnknown, opDecrypt, "")
	}
	return entry.Binding, nil
}

// lookup asks the published registry.
func (s *Service) lookup(keyID string) (*registry.Entry, bool) {
	if r := s.views.Load().Registry(); r != nil {
		return r.Lookup(keyID)
	}
	return nil, false
}

// findOut lets the Discoverer look for an unknown key_id. After nil the
// registry knows it or it is unknown for good.
func (s *Service) findOut(ctx context.Context, keyID string) error {
	switch {
	case s.views.Load().Registry() == nil:
		return fault.New(fault.DiscoveryFailed, opDecrypt, "no key registry is published yet")
	case s.discoverer == nil:
		return nil
	}
	if err := s.discoverer.Discover(ctx, keyID); err != nil {
		return discoveryError(ctx, err)
	}
	return nil
}

// discoveryError keeps what a discovery may say and makes a failed lookup of
// everything else. The cause behind it is logged where the lookup was made.
func discoveryError(ctx context.Context, err error) error {
	switch fault.CauseOf(err) {
	case fault.KeyIDUnknown, fault.DiscoveryFailed:
		return err
	case fault.Canceled, fault.DeadlineExceeded:
		// The caller's own, or that of the lookup's life time: a shutdown.
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fault.New(fault.DiscoveryFailed, opDecrypt, "")
}

// checkAgainst holds annotations and ciphertext against the binding.
func checkAgainst(b *identity.Binding, req *kmsapi.DecryptRequest) error {
	if err := b.CheckAnnotations(req.Annotations); err != nil {
		return annotationFault(err)
	}
	switch ciphertextVersion(req.Ciphertext) {
	case b.Version():
		return nil
	case 0:
		return invalid(opDecrypt, "the ciphertext has no Transit version prefix")
	}
	return fault.New(fault.AnnotationsMismatch, opDecrypt, "the ciphertext is of another Transit version than its key_id")
}

func annotationFault(err error) error {
	cause := fault.AnnotationsInvalid
	detail := ""
	if a, ok := errors.AsType[*identity.AnnotationError](err); ok {
		detail = a.Error()
		switch a.Problem {
		case identity.AnnotationMissing:
			cause = fault.AnnotationsMissing
		case identity.AnnotationMismatch:
			cause = fault.AnnotationsMismatch
		}
	}
	return fault.New(cause, opDecrypt, "%s", detail)
}
