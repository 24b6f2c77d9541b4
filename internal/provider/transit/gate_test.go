package transit

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// judge is an OpenBao that rejects what the test says, and counts what arrives.
type judge struct {
	mu sync.Mutex
	// status answers a request of the operation under the nth token; 0 or 200 is
	// a good answer.
	status func(operation string, n int) int
	seen   []string // "encrypt 1"
	// gather delays the rejections until so many requests have arrived.
	gather int
	all    chan struct{}
}

func (j *judge) serve(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.Header.Get("X-Vault-Token"), "hvs.CANARY-%d", &n); err != nil {
			t.Errorf("the token is %q", r.Header.Get("X-Vault-Token"))
		}
		operation := "metadata"
		for name, part := range map[string]string{"encrypt": "/encrypt/", "decrypt": "/decrypt/", "upsert": "/config/keys"} {
			if strings.Contains(r.URL.Path, part) {
				operation = name
			}
		}
		j.mu.Lock()
		j.seen = append(j.seen, fmt.Sprint(operation, " ", n))
		status, all := j.status(operation, n), j.all
		if len(j.seen) == j.gather {
			close(all)
		}
		j.mu.Unlock()
		if status == 0 || status == 200 {
			(&wire{}).serve(w, r)
			return
		}
		if all != nil {
			<-all
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"errors":["permission denied CANARY"]}`)
	}
}

// judged returns the requests that arrived since the last time.
func (j *judge) judged() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := strings.Join(j.seen, ", ")
	j.seen = nil
	return list
}

func (j *judge) rule(status func(operation string, n int) int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status = status
}

// upTo rejects the tokens up to the last with a status.
func upTo(last, status int) func(string, int) int {
	return func(_ string, n int) int {
		if n <= last {
			return status
		}
		return 200
	}
}

// The one retry that there is.
func TestRecovery(t *testing.T) {
	for name, call := range calls {
		for _, c := range []struct {
			status, tokens, rejected int
			cause                    fault.Cause
			text                     string
			requests, replaced       int
		}{
			{403, 2, 0, fault.None, "", 1, 0},
			{403, 2, 1, fault.None, "", 2, 1},
			{401, 2, 1, fault.None, "", 2, 1},
			// A denial under the fresh token leaves that token in use.
			{403, 3, 2, fault.PolicyDenied, "policy openbao", 2, 1},
			{401, 3, 2, fault.Unauthenticated, "HTTP 401", 2, 1},
			{403, 1, 1, fault.RecoveryDelayed, "wait", 1, 0},
			{403, 0, 0, fault.RecoveryDelayed, "wait", 0, 0},
			{503, 2, 1, fault.Sealed, "unseal", 1, 0},
			{500, 2, 1, fault.Unavailable, "HTTP 500", 1, 0},
			{429, 2, 1, fault.RateLimited, "quota", 1, 0},
			{404, 2, 1, fault.KeyMissing, "HTTP 404", 1, 0},
		} {
			t.Run(fmt.Sprintf("%s/%d/%d of %d", name, c.status, c.rejected, c.tokens), func(t *testing.T) {
				source := newTokens(c.tokens)
				j := &judge{status: upTo(c.rejected, c.status)}
				err := call(t.Context(), peer(t, source, j.serve(t)))
				if c.cause == fault.None {
					if err != nil {
						t.Errorf("failed: %v", err)
					}
				} else {
					assertFault(t, err, c.cause, c.text)
				}
				if len(j.seen) != c.requests || source.replaced != c.replaced {
					t.Errorf("%q was sent and %d tokens replaced, want %d requests and %d tokens",
						j.seen, source.replaced, c.requests, c.replaced)
				}
			})
		}
	}
}

// step makes a call and compares what it answers and what it sends.
func step(t *testing.T, c *Client, j *judge, name string, want fault.Cause, requests string) {
	t.Helper()
	err := calls[name](t.Context(), c)
	if want == fault.None && err != nil {
		t.Errorf("%s failed: %v", name, err)
	} else if want != fault.None {
		assertFault(t, err, want, "")
	}
	if got := j.judged(); got != requests {
		t.Errorf("%s sent %q, want %q", name, got, requests)
	}
}

// A denied operation keeps no other from going on, and is not asked again until
// there is another token.
func TestADenialConcernsItsOperation(t *testing.T) {
	source := newTokens(2)
	j := &judge{status: func(operation string, _ int) int {
		if operation == "encrypt" {
			return 403
		}
		return 200
	}}
	c := peer(t, source, j.serve(t))
	step(t, c, j, "encrypt", fault.PolicyDenied, "encrypt 1, encrypt 2")
	for range 3 {
		step(t, c, j, "encrypt", fault.DenialDelayed, "")
		step(t, c, j, "decrypt", fault.None, "decrypt 2")
		step(t, c, j, "metadata", fault.None, "metadata 2")
		step(t, c, j, "upsert", fault.None, "upsert 2")
	}

	// A new token is tried, straight away where the recovery gives it.
	source.add(1)
	step(t, c, j, "encrypt", fault.PolicyDenied, "encrypt 3")
	step(t, c, j, "encrypt", fault.DenialDelayed, "")
	// One that an ordinary login gave, too. Its denial is not the first.
	source.mu.Lock()
	source.list = nil
	source.mu.Unlock()
	source.add(1)
	j.judged()
	err := calls["encrypt"](t.Context(), c)
	assertFault(t, err, fault.DenialDelayed, "bao-kms-provider policy openbao")
	if got := j.judged(); !strings.HasPrefix(got, "encrypt ") || strings.Contains(got, ",") {
		t.Errorf("under another token it sent %q, want one request", got)
	}

	// Widened again: the next token shows it, and the denial is forgotten.
	j.rule(upTo(0, 403))
	source.add(1)
	err = calls["encrypt"](t.Context(), c)
	if err != nil || !strings.HasPrefix(j.judged(), "encrypt ") {
		t.Errorf("after the policy was widened: %v", err)
	}
	if known := c.encrypt.rejections.Load(); known != nil {
		t.Errorf("after a success %d tokens are still known as rejected", len(known.tokens))
	}
	j.rule(func(string, int) int { return 403 })
	assertFault(t, calls["encrypt"](t.Context(), c), fault.RecoveryDelayed, "")
}

// A 401 says nothing about the policy.
func TestARejectionThatIsNoDenial(t *testing.T) {
	j := &judge{status: func(string, int) int { return 401 }}
	c := peer(t, newTokens(2), j.serve(t))
	step(t, c, j, "decrypt", fault.Unauthenticated, "decrypt 1, decrypt 2")
	step(t, c, j, "decrypt", fault.RecoveryDelayed, "")
	step(t, c, j, "decrypt", fault.RecoveryDelayed, "")
}

func TestAFailedLoginSaysSo(t *testing.T) {
	source := newTokens(1)
	source.failure = fault.New(fault.LoginRejected, "log in to OpenBao", "no")
	j := &judge{status: func(string, int) int { return 403 }}
	c := peer(t, source, j.serve(t))
	step(t, c, j, "encrypt", fault.LoginRejected, "encrypt 1")
	step(t, c, j, "encrypt", fault.LoginRejected, "")
	c.encrypt.reject(openbao.NewSecret("CANARY"), true)
	step(t, c, j, "encrypt", fault.LoginRejected, "")
}

// A hundred callers that OpenBao rejects at once share one new token and make
// one retry each.
func TestAHundredRejectedAtOnce(t *testing.T) {
	source := newTokens(2)
	j := &judge{status: upTo(1, 403), gather: 100, all: make(chan struct{})}
	c := peer(t, source, j.serve(t))
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if err := calls["decrypt"](t.Context(), c); err != nil {
				t.Errorf("decrypt: %v", err)
			}
		})
	}
	group.Wait()
	if n := len(j.seen); n != 200 || source.replaced != 1 {
		t.Errorf("%d requests and %d new tokens, want 200 and 1", n, source.replaced)
	}
}

// What other callers learned about the new token saves the retry.
func TestARetryThatIsKnownToFail(t *testing.T) {
	for denied, want := range map[bool]fault.Cause{true: fault.PolicyDenied, false: fault.RecoveryDelayed} {
		source := newTokens(2)
		j := &judge{status: upTo(1, 403)}
		c := peer(t, source, j.serve(t))
		c.encrypt.reject(source.list[1], denied)
		step(t, c, j, "encrypt", want, "encrypt 1")
		step(t, c, j, "decrypt", fault.None, "decrypt 2")
	}
}

func TestRejections(t *testing.T) {
	var e endpoint
	var list []openbao.Secret
	for i := range rememberedTokens + 1 {
		list = append(list, openbao.NewSecret(fmt.Sprint(i)))
	}
	holds := func() (held []int) {
		for i, token := range list {
			if e.rejections.Load().hold(token) {
				held = append(held, i)
			}
		}
		return held
	}
	if got := holds(); got != nil {
		t.Errorf("an untouched endpoint knows %v", got)
	}
	e.reject(list[1], false)
	e.reject(list[0], false) // a late answer
	e.reject(list[0], false)
	if got := holds(); !slices.Equal(got, []int{0, 1}) || e.rejections.Load().denied {
		t.Errorf("it knows %v, want both, without a denial", got)
	}
	before := e.rejections.Load()
	e.reject(list[2], true)
	e.accept(before) // an answer to a request from before
	e.accept(nil)
	if got := holds(); !slices.Equal(got, []int{0, 1, 2}) || !e.rejections.Load().denied {
		t.Errorf("it knows %v, want the new one too, with its denial", got)
	}
	e.reject(list[3], false)
	e.reject(list[4], false)
	if got := holds(); len(got) != rememberedTokens || !slices.Contains(got, 4) || !e.rejections.Load().denied {
		t.Errorf("it knows %v, want the newest %d and that there was a denial", got, rememberedTokens)
	}
	e.accept(e.rejections.Load())
	if got := holds(); got != nil {
		t.Errorf("after a success it knows %v", got)
	}
	if known := e.rejections.Load(); known.hold(openbao.Secret{}) {
		t.Error("no token is known as rejected")
	}
}

// Where no new token is to be had, OpenBao's own word tells a policy that denies
// from a token that is not good any more.
func TestARejectionThatNamesThePolicy(t *testing.T) {
	for text, want := range map[string]fault.Cause{
		`1 error occurred:\n\t* permission denied\n\n`: fault.DenialDelayed,
		`permission denied`:                            fault.RecoveryDelayed,
	} {
		for name, call := range calls {
			c := peer(t, newTokens(1), func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"errors":["`+text+`"]}`)
			})
			for range 2 {
				if err := call(t.Context(), c); fault.CauseOf(err) != want {
					t.Errorf("%s, %q: %v, want %q", name, text, err, want.Text())
				}
			}
		}
	}
}
