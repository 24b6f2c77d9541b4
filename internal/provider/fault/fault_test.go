package fault

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// Every cause has a class, a code and a text. Written down here a second time,
// so that a change of the outward contract is a change of two files (design:
// kms-service, error policy; observability, error classes).
func TestPolicy(t *testing.T) {
	want := map[Cause]struct {
		class Class
		code  codes.Code
	}{
		Unknown:             {"unknown", codes.Internal},
		FieldInvalid:        {"protocol_limit", codes.InvalidArgument},
		MessageTooLarge:     {"protocol_limit", codes.ResourceExhausted},
		ConcurrencyLimited:  {"concurrency_limit", codes.ResourceExhausted},
		KeyIDMalformed:      {"key_id_malformed", codes.InvalidArgument},
		KeyIDUnknown:        {"key_id_unknown", codes.NotFound},
		AnnotationsMissing:  {"aad_missing", codes.InvalidArgument},
		AnnotationsInvalid:  {"annotation_invalid", codes.InvalidArgument},
		AnnotationsMismatch: {"aad_mismatch", codes.InvalidArgument},
		DiscoveryFailed:     {"key_metadata_refresh_failed", codes.Unavailable},
		NotHealthy:          {"status_stale", codes.FailedPrecondition},
		CiphertextRefused:   {"aad_mismatch", codes.InvalidArgument},
		RequestRefused:      {"unknown", codes.Internal},
		KeyMissing:          {"transit_key_missing", codes.NotFound},
		PolicyDenied:        {"transit_policy_denied", codes.PermissionDenied},
		Unauthenticated:     {"auth_failed", codes.Unauthenticated},
		LoginRejected:       {"auth_failed", codes.Unauthenticated},
		RecoveryDelayed:     {"auth_failed", codes.Unauthenticated},
		DenialDelayed:       {"transit_policy_denied", codes.Unauthenticated},
		RateLimited:         {"openbao_rate_limited", codes.ResourceExhausted},
		Sealed:              {"openbao_sealed", codes.Unavailable},
		Unavailable:         {"openbao_unavailable", codes.Unavailable},
		AnswerInvalid:       {"openbao_unavailable", codes.Unavailable},
		TLSFailed:           {"openbao_tls_failed", codes.Unavailable},
		DNSFailed:           {"openbao_dns_failed", codes.Unavailable},
		ConnectionFailed:    {"openbao_connection_failed", codes.Unavailable},
		TimedOut:            {"timeout", codes.Unavailable},
		BreakerOpen:         {"openbao_unavailable", codes.Unavailable},
		ResponseOverLimit:   {"protocol_limit", codes.Internal},
		KeyChanged:          {"status_stale", codes.Unavailable},
		Panicked:            {"panic", codes.Internal},
		Canceled:            {"canceled", codes.Canceled},
		DeadlineExceeded:    {"timeout", codes.DeadlineExceeded},
	}
	for c := range causeCount {
		if c == None {
			continue
		}
		w, listed := want[c]
		if !listed {
			t.Errorf("cause %d (%s) is not in this test", c, c.Text())
			continue
		}
		if c.Class() != w.class || c.Code() != w.code {
			t.Errorf("cause %d (%s) has class %s and code %v, want %s and %v", c, c.Text(), c.Class(), c.Code(), w.class, w.code)
		}
	}
	if len(want) != int(causeCount)-1 {
		t.Errorf("this test lists %d causes, the table has %d", len(want), causeCount-1)
	}
}

func TestNoneIsASuccess(t *testing.T) {
	if None.Class() != ClassNone || None.Code() != codes.OK || None.Text() != "" {
		t.Errorf("None is %q %v %q, want a success", None.Class(), None.Code(), None.Text())
	}
}

func TestTextsAreOneCleanSentence(t *testing.T) {
	for c := range causeCount {
		text := c.Text()
		if c == None {
			continue
		}
		if text == "" || strings.TrimSpace(text) != text || strings.ContainsAny(text, "\n%") || strings.HasSuffix(text, ".") {
			t.Errorf("cause %d has the text %q", c, text)
		}
	}
	for _, denied := range []Cause{PolicyDenied, DenialDelayed} {
		if text := denied.Text(); !strings.Contains(text, "policy") {
			t.Errorf("a denial says %q, want the policy named", text)
		}
	}
	if text := DiscoveryFailed.Text(); !strings.Contains(text, "key_metadata_refresh_failed") {
		t.Errorf("a failed discovery says %q, want key_metadata_refresh_failed in it", text)
	}
	// What a caller sees of a panic must not tell it from any other bug.
	if Panicked.Text() != Unknown.Text() {
		t.Errorf("a panic says %q, want what an unknown failure says", Panicked.Text())
	}
}

func TestCausesOutsideTheTableAreUnknown(t *testing.T) {
	for _, c := range []Cause{-1, causeCount, 1 << 20} {
		if c.Class() != ClassUnknown || c.Code() != codes.Internal || c.Text() != Unknown.Text() {
			t.Errorf("cause %d is %s %v, want unknown Internal", c, c.Class(), c.Code())
		}
	}
}

// The classes are exactly the page's, and each is used.
func TestClasses(t *testing.T) {
	page := strings.Fields(`openbao_unavailable openbao_tls_failed openbao_dns_failed openbao_connection_failed
		openbao_sealed openbao_rate_limited auth_failed transit_key_missing transit_policy_denied key_id_unknown
		key_id_malformed key_metadata_refresh_failed aad_missing aad_mismatch annotation_invalid status_stale
		protocol_limit concurrency_limit timeout canceled panic unknown`)
	var got []string
	for c := range causeCount {
		if class := string(c.Class()); class != "" && !slices.Contains(got, class) {
			got = append(got, class)
		}
	}
	slices.Sort(page)
	slices.Sort(got)
	if !slices.Equal(got, page) {
		t.Errorf("the table's classes are\n%v, the page's\n%v", got, page)
	}
}

func TestCauseOf(t *testing.T) {
	sealed := New(Sealed, "encrypt", "")
	cases := []struct {
		name string
		err  error
		want Cause
	}{
		{"nil", nil, None},
		{"plain", errors.New("x"), Unknown},
		{"fault", sealed, Sealed},
		{"wrapped fault", fmt.Errorf("probe: %w", sealed), Sealed},
		{"outermost fault", Wrap(DiscoveryFailed, "discover", sealed), DiscoveryFailed},
		{"canceled", context.Canceled, Canceled},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), DeadlineExceeded},
		{"fault around the caller's end", Wrap(ConnectionFailed, "encrypt", context.Canceled), Canceled},
		{"fault around the caller's deadline", Wrap(ConnectionFailed, "encrypt", context.DeadlineExceeded), DeadlineExceeded},
		{"our own deadline", New(TimedOut, "encrypt", "after %s", "2s"), TimedOut},
		{"zero fault", &Error{}, Unknown},
	}
	for _, c := range cases {
		if got := CauseOf(c.err); got != c.want {
			t.Errorf("%s: CauseOf = %d (%s), want %d (%s)", c.name, got, got.Text(), c.want, c.want.Text())
		}
		if got := ClassOf(c.err); got != c.want.Class() {
			t.Errorf("%s: ClassOf = %s, want %s", c.name, got, c.want.Class())
		}
	}
}

func TestErrorsSayWhatIsSafeToSay(t *testing.T) {
	cases := []struct {
		err  *Error
		want string
	}{
		{&Error{Cause: Sealed}, "OpenBao is sealed"},
		{New(Sealed, "encrypt", ""), "encrypt: OpenBao is sealed"},
		{New(Sealed, "encrypt", "unseal %d nodes", 3), "encrypt: OpenBao is sealed: unseal 3 nodes"},
		{&Error{Cause: Sealed, Op: "encrypt", HTTPStatus: 503}, "encrypt: OpenBao is sealed (HTTP 503)"},
		{Wrap(ConnectionFailed, "encrypt", &url.Error{Op: "Post", URL: "https://bao/v1/canary", Err: errors.New("canary")}), "encrypt: OpenBao could not be reached"},
	}
	for _, c := range cases {
		if got := c.err.Error(); got != c.want {
			t.Errorf("Error = %q, want %q", got, c.want)
		}
	}
	cause := errors.New("x")
	if !errors.Is(Wrap(Sealed, "encrypt", cause), cause) {
		t.Error("the underlying error is lost")
	}
}
