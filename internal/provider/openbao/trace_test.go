package openbao

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const someID = "5ff1b6a1-3c2f-4d5e-8a7b-0123456789ab"

// heard records the request ids that an Observer is told.
type heard struct {
	mu   sync.Mutex
	ids  []string
	ctxs []context.Context
}

func (h *heard) RequestDone(ctx context.Context, d Done) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, d.RequestID)
	h.ctxs = append(h.ctxs, ctx)
}

func TestRequestIDs(t *testing.T) {
	for name, c := range map[string]struct {
		requestIDs, traced bool
		want               string
	}{
		"nobody asks":     {false, false, ""},
		"the observer":    {true, false, someID},
		"a trace":         {false, true, someID},
		"observer, trace": {true, true, someID},
	} {
		t.Run(name, func(t *testing.T) {
			o := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, `{"request_id":"`+someID+`","auth":{"client_token":"t"}}`)
			})
			watch := &heard{}
			o.Observer, o.RequestIDs = watch, c.requestIDs
			conn := open(t, o)
			ctx, trace := t.Context(), new(Trace)
			if c.traced {
				ctx, trace = WithTrace(ctx)
			}
			if got := trace.RequestID(); got != "" {
				t.Errorf("before the request the trace holds %q", got)
			}
			answer, err := conn.Call(ctx, endpoint(t, conn, Encrypt), NewSecret(canaryToken), post())
			if err != nil {
				t.Fatal(err)
			}
			answer.Release()
			if _, err := conn.Use(ctx, JWTLogin, login); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(watch.ids, ","); got != c.want+","+c.want {
				t.Errorf("the observer heard %q, want %q twice", got, c.want)
			}
			if watch.ctxs[0] != ctx || watch.ctxs[1] != ctx {
				t.Error("the observer did not get the caller's context")
			}
			want := ""
			if c.traced {
				want = c.want
			}
			if got := trace.RequestID(); got != want {
				t.Errorf("the trace holds %q, want %q", got, want)
			}
		})
	}
}

// Without an observer there is nobody to look for ids for.
func TestRequestIDsWithoutAnObserver(t *testing.T) {
	o := serve(t, nil)
	o.RequestIDs = true
	if c := open(t, o); c.wantsIDs(t.Context()) {
		t.Error("ids are looked for")
	}
}

// Each trace hears its own requests, the last that carried an id; a failure
// changes nothing.
func TestTraceKeepsTheLastID(t *testing.T) {
	var status int
	var body string
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	ctx, trace := WithTrace(t.Context())
	_, other := WithTrace(t.Context())
	for _, step := range []struct {
		status     int
		body, want string
	}{
		{403, `{"request_id":"of-an-error","errors":["permission denied"]}`, ""},
		{200, `{"request_id":"first"}`, "first"},
		{200, `{"request_id":"second"}`, "second"},
		{200, `{}`, "second"},
		{503, `{"errors":["Vault is sealed"]}`, "second"},
	} {
		status, body = step.status, step.body
		if answer, err := c.Call(ctx, endpoint(t, c, Encrypt), NewSecret(canaryToken), post()); err == nil {
			answer.Release()
		}
		if got := trace.RequestID(); got != step.want {
			t.Errorf("after %d %s the trace holds %q, want %q", step.status, step.body, got, step.want)
		}
	}
	if got := other.RequestID(); got != "" {
		t.Errorf("another trace holds %q", got)
	}
}

func TestRequestIDOfAnAnswer(t *testing.T) {
	long := strings.Repeat("a", maxRequestID)
	for name, c := range map[string]struct{ answer, want string }{
		"first":            {`{"request_id":"` + someID + `","data":{}}`, someID},
		"spaced":           {" \t\r\n{ \"request_id\"\n:\t\"x-1\" }", "x-1"},
		"last":             {`{"data":{"a":[1,{"b":"}"}]},"n":null,"request_id":"x"}`, "x"},
		"longest":          {`{"request_id":"` + long + `"}`, long},
		"too long":         {`{"request_id":"` + long + `a"}`, ""},
		"empty":            {`{"request_id":""}`, ""},
		"a number":         {`{"request_id":17}`, ""},
		"null":             {`{"request_id":null}`, ""},
		"nested":           {`{"data":{"request_id":"x"}}`, ""},
		"in a list":        {`{"data":[{"request_id":"x"}]}`, ""},
		"a value":          {`{"lease_id":"request_id","data":"x"}`, ""},
		"within a value":   {`{"lease_id":"\"request_id\":\"x\""}`, ""},
		"escaped quotes":   {`{"lease_id":"\\","request_id":"x"}`, "x"},
		"after the object": {`{} {"request_id":"x"}`, ""},
		"a list":           {`["request_id","x"]`, ""},
		"a new line":       {`{"request_id":"a` + "\n" + `b"}`, ""},
		"an escape":        {`{"request_id":"a\u0062"}`, ""},
		"other letters":    {`{"request_id":"ä"}`, ""},
		"a path":           {`{"request_id":"../x"}`, ""},
		"cut":              {`{"request_id":"abc`, ""},
		"cut after it":     {`{"request_id":"abc","da`, "abc"},
		"no JSON":          {`<html>"request_id":"x"`, ""},
		"nothing":          {``, ""},
		"spaces":           {`   `, ""},
		"cut key":          {`{"request_id"`, ""},
		"cut value":        {`{"request_id":`, ""},
		"a late one":       {`{"data":"` + strings.Repeat("x", requestIDWithin) + `","request_id":"x"}`, ""},
		"across the bound": {`{"data":"` + strings.Repeat("x", requestIDWithin-30) + `","request_id":"xxxxxxxx"}`, ""},
	} {
		if got := requestID([]byte(c.answer)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

var wellFormedID = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

func FuzzRequestID(f *testing.F) {
	for _, seed := range []string{
		`{"request_id":"` + someID + `","lease_id":"","data":{"ciphertext":"vault:v1:AAAA"}}`,
		`{"data":{"request_id":"x"},"request_id":"y"}`, `{"a":"\"","request_id":"z"}`, `[`, `{"request_id"`, `"`, `{"\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		before := string(answer)
		got := requestID(answer)
		if string(answer) != before {
			t.Fatal("the answer was changed")
		}
		if got != "" && !wellFormedID.MatchString(got) {
			t.Fatalf("%q came out", got)
		}
		// encoding/json takes the last of several, and knows other spellings.
		var whole map[string]json.RawMessage
		if len(answer) > requestIDWithin || strings.Count(before, "request_id") != 1 || json.Unmarshal(answer, &whole) != nil {
			return
		}
		want := ""
		if json.Unmarshal(whole["request_id"], &want) != nil || !wellFormedID.MatchString(want) || !strings.Contains(before, want) {
			want = ""
		}
		if got != want && !strings.Contains(before, `\`) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// What is not asked for costs next to nothing: no allocation.
func TestNoRequestIDCostsNothing(t *testing.T) {
	c := open(t, serve(t, nil))
	answer := &Buffer{B: []byte(benchAnswer)}
	x := exchange{op: Encrypt, caller: t.Context()}
	if n := testing.AllocsPerRun(100, func() { c.observe(x, c.answerID(x, answer), nil) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if c.answerID(x, nil) != "" || c.secretID(x, nil) != "" {
		t.Error("an answer that there is not has an id")
	}
}
