package openbao

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/baokms/baokms/internal/provider/fault"
)

// caught is a second server that records whatever reaches it.
type caught struct {
	url  string
	mu   sync.Mutex
	seen []string
}

func catch(t *testing.T, start func(http.Handler) *httptest.Server) *caught {
	t.Helper()
	c := &caught{}
	server := start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// No redirect is followed, to wherever it leads: the token, the plaintext and
// the credential stay with the address that was configured.
func TestNoRedirectIsFollowed(t *testing.T) {
	elsewhere := map[string]*caught{
		"another host":     catch(t, httptest.NewServer),
		"another TLS host": catch(t, httptest.NewTLSServer),
	}
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308, 399} {
		for _, target := range []string{"another host", "another TLS host", "the same host", "nowhere", "no URL"} {
			t.Run(fmt.Sprint(status, " to ", target), func(t *testing.T) {
				calm(t)
				var requests atomic.Int32
				c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					switch target {
					case "the same host":
						w.Header().Set("Location", "/v1/"+canaryMount+"/elsewhere")
					case "nowhere":
					case "no URL":
						w.Header().Set("Location", "http://%zz")
					default:
						w.Header().Set("Location", elsewhere[target].url+r.URL.Path)
					}
					w.WriteHeader(status)
				}))
				defer c.Close()
				const text = "forward requests, or set openbao.address to the active node"
				_, err := call(t, c)
				assertFault(t, err, fault.Unavailable, text)
				_, err = c.Call(t.Context(), endpoint(t, c, MetadataRead), NewSecret(canaryToken), nil)
				assertFault(t, err, fault.Unavailable, text)
				_, err = c.Use(t.Context(), JWTLogin, login)
				assertFault(t, err, fault.Unavailable, text)
				_, err = c.Use(t.Context(), TokenRenewSelf, renew)
				assertFault(t, err, fault.Unavailable, text)
				if n := requests.Load(); n != 4 {
					t.Errorf("%d requests were sent, want 4", n)
				}
			})
		}
	}
	for name, c := range elsewhere {
		if len(c.seen) != 0 {
			t.Errorf("%s was reached by %q", name, c.seen)
		}
	}
}

// renew is a request as package auth makes it.
func renew(ctx context.Context, client *api.Client) (*api.Secret, error) {
	client.SetToken(canaryToken)
	return client.Auth().Token().RenewSelfWithContext(ctx, 60)
}

// There is no retry, so there is nothing that Retry-After could put off: whatever
// it says, the next call goes out when its caller makes it.
func TestRetryAfterIsNotLookedAt(t *testing.T) {
	for _, status := range []int{429, 503} {
		for name, value := range map[string]string{
			"none": "", "seconds": "3600", "zero": "0", "negative": "-1", "garbage": canaryText, "huge": strings.Repeat("9", 40),
			"date": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat),
		} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				calm(t)
				var requests atomic.Int32
				c := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
					if requests.Add(1)%2 == 0 {
						_, _ = io.WriteString(w, "fine")
						return
					}
					if value != "" {
						w.Header().Set("Retry-After", value)
					}
					w.WriteHeader(status)
					_, _ = io.WriteString(w, `{"errors":["rate limit quota exceeded"]}`)
				}))
				defer c.Close()
				cause := map[int]fault.Cause{429: fault.RateLimited, 503: fault.Sealed}[status]
				for range 5 * breakerFailures {
					_, err := timed(t, t.Context(), c, Encrypt, post(), 0)
					assertFault(t, err, cause, "")
					if got, err := timed(t, t.Context(), c, Encrypt, post(), 0); err != nil || got != "fine" {
						t.Fatalf("the next call: %q, %v", got, err)
					}
				}
				if n := requests.Load(); n != 2*5*breakerFailures {
					t.Errorf("%d requests arrived, want %d", n, 2*5*breakerFailures)
				}
				wantState(t, c, closed)
			})
		}
	}
}

// What the library asks for fails like the rest, whatever the operation.
func TestLibraryAnswersOfEveryOperation(t *testing.T) {
	read := func(ctx context.Context, client *api.Client) (*api.Secret, error) {
		return client.Logical().WriteWithContext(ctx, "sys/capabilities-self", map[string]any{"path": canaryMount})
	}
	for op, use := range map[Operation]func(context.Context, *api.Client) (*api.Secret, error){
		JWTLogin: login, CertLogin: login, TokenRenewSelf: renew, CapabilitiesSelf: read,
	} {
		refused := fault.Unauthenticated
		if op.isLogin() {
			refused = fault.LoginRejected
		}
		for name, c := range map[string]struct {
			answer string
			cause  fault.Cause
			text   string
		}{
			"no JSON":     {okHead + "Content-Length: 6\r\n\r\n<html>", fault.Unavailable, "library understands"},
			"cut JSON":    {okHead + "Content-Length: 9\r\n\r\n{\"auth\":{", fault.Unavailable, "library understands"},
			"broken off":  {okHead + "Content-Length: 99\r\n\r\n{", fault.ConnectionFailed, "connection broke"},
			"oversized":   {okHead + "\r\n" + strings.Repeat(" ", 1<<20), fault.Unavailable, "larger than 262144 bytes"},
			"large error": {"HTTP/1.1 500 No\r\n\r\n" + strings.Repeat(" ", 1<<20), fault.Unavailable, "larger than 65536 bytes"},
			"403":         {"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\n{}", refused, "HTTP 403"},
			"429":         {"HTTP/1.1 429 No\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n", fault.RateLimited, "quota"},
			"sealed":      {"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", fault.Sealed, "unseal"},
			"101":         {"HTTP/1.1 101 No\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", fault.Unavailable, "makes no sense"},
		} {
			t.Run(string(op)+"/"+name, func(t *testing.T) {
				calm(t)
				o := peer(t, tells(c.answer))
				watch := &observed{}
				o.Observer = watch
				conn := open(t, o)
				defer conn.Close()
				start := time.Now()
				answer, err := conn.Use(t.Context(), op, use)
				if took := time.Since(start); took > noise {
					t.Errorf("it took %v", took)
				}
				if answer != nil {
					t.Errorf("there is an answer: %+v", answer)
				}
				assertFault(t, err, c.cause, c.text)
				if got, want := strings.Join(watch.list, ","), string(op)+" "+string(c.cause.Class()); got != want {
					t.Errorf("observed %q, want %q", got, want)
				}
			})
		}
	}
}
