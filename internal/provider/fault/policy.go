package fault

import "google.golang.org/grpc/codes"

// Class is a stable, bounded name of a kind of failure: the value of the
// error_class log attribute and of metric labels (design: observability, error
// classes).
type Class string

// The error classes. No other value is ever exported.
const (
	ClassNone               Class = ""
	ClassOpenBaoUnavailable Class = "openbao_unavailable"
	ClassOpenBaoTLS         Class = "openbao_tls_failed"
	ClassOpenBaoDNS         Class = "openbao_dns_failed"
	ClassOpenBaoConnection  Class = "openbao_connection_failed"
	ClassOpenBaoSealed      Class = "openbao_sealed"
	ClassOpenBaoRateLimited Class = "openbao_rate_limited"
	ClassAuthFailed         Class = "auth_failed"
	ClassKeyMissing         Class = "transit_key_missing"
	ClassPolicyDenied       Class = "transit_policy_denied"
	ClassKeyIDUnknown       Class = "key_id_unknown"
	ClassKeyIDMalformed     Class = "key_id_malformed"
	ClassMetadataRefresh    Class = "key_metadata_refresh_failed"
	ClassAADMissing         Class = "aad_missing"
	ClassAADMismatch        Class = "aad_mismatch"
	ClassAnnotationInvalid  Class = "annotation_invalid"
	ClassStatusStale        Class = "status_stale"
	ClassProtocolLimit      Class = "protocol_limit"
	ClassConcurrencyLimit   Class = "concurrency_limit"
	ClassTimeout            Class = "timeout"
	ClassCanceled           Class = "canceled"
	ClassPanic              Class = "panic"
	ClassUnknown            Class = "unknown"
)

// Cause is one row of the error policy. The zero value is Unknown.
type Cause int

// The causes, in the order of the policy table.
const (
	Unknown Cause = iota
	None
	// Requests that break the KMS v2 contract or our limits.
	FieldInvalid        // a field is empty, oversized or not valid UTF-8
	MessageTooLarge     // a gRPC message over 65536 bytes
	ConcurrencyLimited  // the method's cap on active handlers is reached
	KeyIDMalformed      // key_id is not a well-formed identity
	KeyIDUnknown        // well-formed, looked up, not one of ours
	AnnotationsMissing  // a required annotation is absent
	AnnotationsInvalid  // an annotation is malformed
	AnnotationsMismatch // an annotation differs from the snapshot
	DiscoveryFailed     // the metadata lookup for an unknown key_id failed
	NotHealthy          // Encrypt without a healthy status
	// What OpenBao answers.
	CiphertextRefused // Transit will not decrypt it: altered, wrong associated data, wrong version
	RequestRefused    // Transit refused the request itself: 400 other than the above
	KeyMissing        // the Transit key or its mount does not exist
	PolicyDenied      // 403 after the one recovery retry
	Unauthenticated   // 401 or 403 before recovery: the token may be at fault
	LoginRejected     // the login was refused, or the credential is unusable
	RecoveryDelayed   // the token was rejected and a new login is not allowed yet
	DenialDelayed     // denied under a fresh token too, and not asked again yet
	RateLimited       // 429
	Sealed            // 503
	Unavailable       // other 5xx, or an answer too large to read
	AnswerInvalid     // an answer that cannot be right: malformed, contradictory, another version
	// What stands between us and OpenBao.
	TLSFailed
	DNSFailed
	ConnectionFailed
	TimedOut    // our own deadline (openbao.timeout) passed, not the caller's
	BreakerOpen // failing fast, no request was sent
	// What our own code did.
	ResponseOverLimit // Transit's answer would break the KMS v2 limits
	KeyChanged        // a promotion overtook the Encrypt: the response is discarded
	Panicked
	// The caller.
	Canceled
	DeadlineExceeded

	causeCount
)

type row struct {
	class Class
	code  codes.Code
	text  string
}

// policy is the one table that maps a cause outward (design: kms-service, error
// policy). Texts are fixed strings; nothing is ever added to them before they
// leave over gRPC.
var policy = [causeCount]row{
	Unknown: {ClassUnknown, codes.Internal, "the KMS provider failed for a reason that it does not know"},
	None:    {ClassNone, codes.OK, ""},

	FieldInvalid:        {ClassProtocolLimit, codes.InvalidArgument, "a request field is empty, too large or not valid"},
	MessageTooLarge:     {ClassProtocolLimit, codes.ResourceExhausted, "the message is larger than 65536 bytes"},
	ConcurrencyLimited:  {ClassConcurrencyLimit, codes.ResourceExhausted, "too many requests of this kind are being served"},
	KeyIDMalformed:      {ClassKeyIDMalformed, codes.InvalidArgument, "key_id is malformed"},
	KeyIDUnknown:        {ClassKeyIDUnknown, codes.NotFound, "key_id is unknown to this provider"},
	AnnotationsMissing:  {ClassAADMissing, codes.InvalidArgument, "a required annotation is missing"},
	AnnotationsInvalid:  {ClassAnnotationInvalid, codes.InvalidArgument, "an annotation is invalid"},
	AnnotationsMismatch: {ClassAADMismatch, codes.InvalidArgument, "the annotations do not match the key"},
	DiscoveryFailed:     {ClassMetadataRefresh, codes.Unavailable, "key_metadata_refresh_failed: the key metadata could not be read"},
	NotHealthy:          {ClassStatusStale, codes.FailedPrecondition, "the KMS provider is not healthy: see its /ready"},

	CiphertextRefused: {ClassAADMismatch, codes.InvalidArgument, "OpenBao refused the ciphertext"},
	RequestRefused:    {ClassUnknown, codes.Internal, "OpenBao refused the request"},
	KeyMissing:        {ClassKeyMissing, codes.NotFound, "the Transit key does not exist"},
	PolicyDenied:      {ClassPolicyDenied, codes.PermissionDenied, "OpenBao's policy denies the request"},
	Unauthenticated:   {ClassAuthFailed, codes.Unauthenticated, "OpenBao does not accept the provider's token"},
	LoginRejected:     {ClassAuthFailed, codes.Unauthenticated, "the provider could not log in to OpenBao"},
	RecoveryDelayed:   {ClassAuthFailed, codes.Unauthenticated, "the provider is waiting before it logs in to OpenBao again"},
	DenialDelayed:     {ClassPolicyDenied, codes.Unauthenticated, "OpenBao's policy denied the request also under a new token: it is not asked again until a delay has passed"},
	RateLimited:       {ClassOpenBaoRateLimited, codes.ResourceExhausted, "OpenBao limits the rate of requests"},
	Sealed:            {ClassOpenBaoSealed, codes.Unavailable, "OpenBao is sealed"},
	Unavailable:       {ClassOpenBaoUnavailable, codes.Unavailable, "OpenBao is unavailable"},
	AnswerInvalid:     {ClassOpenBaoUnavailable, codes.Unavailable, "OpenBao's answer is not valid"},

	TLSFailed:        {ClassOpenBaoTLS, codes.Unavailable, "the TLS connection to OpenBao failed"},
	DNSFailed:        {ClassOpenBaoDNS, codes.Unavailable, "OpenBao's host name could not be resolved"},
	ConnectionFailed: {ClassOpenBaoConnection, codes.Unavailable, "OpenBao could not be reached"},
	TimedOut:         {ClassTimeout, codes.Unavailable, "OpenBao did not answer in time"},
	BreakerOpen:      {ClassOpenBaoUnavailable, codes.Unavailable, "OpenBao keeps failing: the circuit breaker is open"},

	ResponseOverLimit: {ClassProtocolLimit, codes.Internal, "OpenBao's answer does not fit the KMS v2 limits"},
	KeyChanged:        {ClassStatusStale, codes.Unavailable, "the active key changed during the request: try again"},
	Panicked:          {ClassPanic, codes.Internal, "the KMS provider failed for a reason that it does not know"},

	Canceled:         {ClassCanceled, codes.Canceled, "the caller cancelled the request"},
	DeadlineExceeded: {ClassTimeout, codes.DeadlineExceeded, "the caller's deadline passed"},
}

func (c Cause) row() row {
	if c < 0 || c >= causeCount {
		c = Unknown
	}
	return policy[c]
}

// Class is the cause's error class.
func (c Cause) Class() Class { return c.row().class }

// Code is the gRPC code that the API server gets.
func (c Cause) Code() codes.Code { return c.row().code }

// Text is the fixed public text.
func (c Cause) Text() string { return c.row().text }
