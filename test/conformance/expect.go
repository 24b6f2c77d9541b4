package conformance

import (
	"regexp"
	"strings"
	"testing"

	grpcstatus "google.golang.org/grpc/status"

	"github.com/baokms/baokms/internal/provider/fault"
)

// fixedTexts are all texts of the error policy (design: kms-service, error policy).
var fixedTexts = func() map[string]bool {
	texts := map[string]bool{}
	// Numbers beyond the last cause are the first one's.
	for c := fault.Cause(0); c < 256; c++ {
		texts[c.Text()] = true
	}
	return texts
}()

// gRPC answers these itself, on either side, and their words hold nothing of a request.
var grpcTexts = regexp.MustCompile(`^(context deadline exceeded|context canceled` +
	`|stream terminated by RST_STREAM with error code: CANCEL` +
	`|grpc: received message larger than max \(\d+ vs\. 65536\)` +
	`|unknown method \w+ for service v2\.KeyManagementService)$`)

// checkWords holds the words of an error against the error policy: a fixed text, or one of gRPC's own.
func (s *subject) checkWords(t *testing.T, method string, err error) {
	t.Helper()
	st := grpcstatus.Convert(err)
	for _, trace := range traces(canary) {
		if strings.Contains(st.Message(), trace) {
			t.Errorf("%s: the error holds the plaintext", method)
		}
	}
	for _, secret := range s.Secrets {
		if strings.Contains(st.Message(), secret) {
			t.Errorf("%s: the error holds a secret of the target", method)
		}
	}
	if !s.Contract {
		return
	}
	if !fixedTexts[st.Message()] && !grpcTexts.MatchString(st.Message()) {
		t.Errorf("%s: the error's text %q is none of the error policy's", method, st.Message())
	}
	if len(st.Details()) != 0 {
		t.Errorf("%s: the error has details", method)
	}
}

// refused asserts that an error is the one that the error policy has for a cause; without the contract, that there is one.
func (s *subject) refused(t *testing.T, err error, want fault.Cause) {
	t.Helper()
	if err == nil {
		t.Errorf("it was accepted; want %v: %s", want.Code(), want.Text())
		return
	}
	st := grpcstatus.Convert(err)
	if s.Contract && (st.Code() != want.Code() || st.Message() != want.Text()) {
		t.Errorf("refused with %v: %s; want %v: %s", st.Code(), st.Message(), want.Code(), want.Text())
	}
}

// searchOutput looks for plaintext and the target's secrets in everything that the provider has put out.
func (s *subject) searchOutput(t *testing.T) {
	t.Helper()
	text, err := s.Output(limited(t))
	if err != nil {
		t.Errorf("collecting the provider's output: %v", err)
		return
	}
	if text == "" {
		t.Error("the provider's output is empty: nothing was searched")
	}
	for _, trace := range traces(canary) {
		if strings.Contains(text, trace) {
			t.Error("the provider's output holds a plaintext")
		}
	}
	for i, secret := range s.Secrets {
		if strings.Contains(text, secret) {
			t.Errorf("the provider's output holds secret %d of the target", i)
		}
	}
	// A ciphertext of this suite is never shorter.
	if found := regexp.MustCompile(`vault:v\d+:[A-Za-z0-9+/]{30}`).FindString(text); found != "" {
		t.Error("the provider's output holds a ciphertext")
	}
}
