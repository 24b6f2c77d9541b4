package openbao

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// conduct is how a scripted peer treats one connection, once its TLS handshake
// is made.
type conduct func(t *testing.T, conn *tls.Conn, r *bufio.Reader)

// peer starts a TLS server that treats every connection in the same way, and
// closes it, with an alert as a good server does, when conduct returns.
func peer(t *testing.T, behave conduct) Options {
	t.Helper()
	ca := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
	addr := listen(t, func(raw net.Conn) {
		conn := tls.Server(lingeringConn{raw.(*net.TCPConn)}, config)
		defer conn.Close()
		if conn.Handshake() == nil {
			behave(t, conn, bufio.NewReader(conn))
		}
	})
	return Options{Address: "https://" + addr.String(), CAFile: ca.file(t), ServerName: "bao.test", Timeout: 10 * time.Second}
}

// readRequest reads a whole request.
func readRequest(r *bufio.Reader) (body string, err error) {
	request, err := http.ReadRequest(r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(request.Body)
	return string(b), err
}

// tells answers one request with exactly this text.
func tells(text string) conduct {
	return func(t *testing.T, conn *tls.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// dribbles answers one request with these pieces, a pause before each; the last
// piece again and again if endless is set.
func dribbles(pause time.Duration, endless bool, pieces ...string) conduct {
	return func(t *testing.T, conn *tls.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err != nil {
			return
		}
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for i := 0; i < len(pieces); i++ {
			<-ticker.C
			if _, err := io.WriteString(conn, pieces[i]); err != nil {
				return
			}
			if endless && i == len(pieces)-1 {
				i--
			}
		}
	}
}

func chars(s string) []string { return strings.Split(s, "") }

const (
	okHead   = "HTTP/1.1 200 OK\r\n"
	okAnswer = okHead + "Content-Length: 2\r\n\r\n{}"
	chunked  = okHead + "Transfer-Encoding: chunked\r\n\r\n"
)

// TestPeers are all ways in which what answers may not be a good OpenBao. For
// each: what the caller sees, that it is there in time, what the observer is
// told, whether it counts for the breaker, and that nothing stays behind.
func TestPeers(t *testing.T) {
	const (
		short = 300 * time.Millisecond // openbao.timeout, where it must pass
		tick  = 10 * time.Millisecond
	)
	large := strings.Repeat("x", 48<<10)
	many := func(n int) string { return strings.Repeat("X-Header: 0123456789\r\n", n) }
	for name, c := range map[string]struct {
		behave  conduct
		timeout time.Duration // openbao.timeout if it is to pass; 0 if not
		body    string        // the request's, canaryBody if empty
		answer  string        // of a success
		cause   fault.Cause   // of a failure
		text    string
		counts  bool // for the breaker
	}{
		"slow headers, in time":  {dribbles(tick/2, false, chars(okAnswer)...), 0, "", "{}", 0, "", false},
		"slow headers, too late": {dribbles(tick, true, okHead, "X-Slow: yes\r\n"), short, "", "", fault.TimedOut, "openbao.timeout", true},
		"one byte of header":     {dribbles(tick, true, "H"), short, "", "", fault.TimedOut, "openbao.timeout", true},
		"stalled body, in time":  {dribbles(10*tick, false, okHead+"Content-Length: 2\r\n\r\n{", "}"), 0, "", "{}", 0, "", false},
		"stalled headers":        {stays(""), short, "", "", fault.TimedOut, "openbao.timeout", true},
		"stalled body, too late": {stays(okHead + "Content-Length: 100\r\n\r\n{"), short, "", "", fault.TimedOut, "openbao.timeout", true},
		"drip-fed, in time":      {dribbles(tick/2, false, append([]string{okHead + "Content-Length: 30\r\n\r\n"}, chars(strings.Repeat("x", 30))...)...), 0, "", strings.Repeat("x", 30), 0, "", false},
		"drip-fed, endless":      {dribbles(tick, true, chunked, "1\r\nx\r\n"), short, "", "", fault.TimedOut, "openbao.timeout", true},
		"drip-fed error":         {dribbles(tick, true, "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"), short, "", "", fault.TimedOut, "openbao.timeout", true},
		"reads nothing":          {readsNothing, short, large, "", fault.TimedOut, "openbao.timeout", true},

		"HTTP/1.0":               {tells("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"), 0, "", "{}", 0, "", false},
		"HTTP/1.0 up to the end": {tells("HTTP/1.0 200 OK\r\n\r\n{}"), 0, "", "{}", 0, "", false},
		"cut, with a length":     {cutOff(okHead + "Content-Length: 3\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "connection broke", true},
		// Go's TLS takes such an end for a good one. JSON cannot be cut unnoticed.
		"cut, without a length":      {cutOff("HTTP/1.0 200 OK\r\n\r\n{\"data\""), 0, "", `{"data"`, 0, "", false},
		"Connection: close":          {tells(okHead + "Connection: close\r\n\r\n{}"), 0, "", "{}", 0, "", false},
		"100, 103, 102":              {tells("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + okAnswer), 0, "", "{}", 0, "", false},
		"informational without end":  {dribbles(tick, true, "HTTP/1.1 102 Processing\r\n\r\n"), short, "", "", fault.TimedOut, "openbao.timeout", true},
		"informational flood":        {dribbles(time.Microsecond, true, strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 1000)+"\r\n\r\n", 10)), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"switching protocols":        {dribbles(tick, false, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "x"), 0, "", "", fault.Unavailable, "makes no sense", false},
		"switching and stalling":     {stays("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), 0, "", "", fault.Unavailable, "makes no sense", false},
		"trailers":                   {tells(okHead + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\n{}\r\n0\r\nX-T: 1\r\n\r\n"), 0, "", "{}", 0, "", false},
		"trailers without end":       {dribbles(time.Microsecond, true, chunked+"2\r\n{}\r\n0\r\n", many(10)), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"chunks without end":         {dribbles(time.Microsecond, true, chunked, "2000\r\n"+strings.Repeat("x", 0x2000)+"\r\n"), 0, "", "", fault.Unavailable, "larger than 262144 bytes", false},
		"a chunk of absurd size":     {tells(chunked + "ffffffffffffffff\r\nx"), 0, "", "", fault.ConnectionFailed, "connection broke", true},
		"a chunk of no size":         {tells(chunked + "zz\r\nx\r\n"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"error chunks without end":   {dribbles(time.Microsecond, true, "HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n", "2000\r\n"+strings.Repeat("x", 0x2000)+"\r\n"), 0, "", "", fault.Unavailable, "larger than 65536 bytes", false},
		"Content-Length: -1":         {tells(okHead + "Content-Length: -1\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"Content-Length: many":       {tells(okHead + "Content-Length: many\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"Content-Length of 2^70":     {tells(okHead + "Content-Length: 1180591620717411303424\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"Content-Length of 2^62":     {tells(okHead + "Content-Length: 4611686018427387904\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "connection broke", true},
		"two Content-Lengths":        {tells(okHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"many headers":               {tells(okHead + many(1000) + "Content-Length: 2\r\n\r\n{}"), 0, "", "{}", 0, "", false},
		"too many headers":           {tells(okHead + many(100_000) + "Content-Length: 2\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"one large header":           {tells(okHead + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n{}"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"a status that is no number": {tells("HTTP/1.1 2xx OK\r\n\r\n"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"status 000":                 {tells("HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n"), 0, "", "", fault.Unavailable, "makes no sense", false},
		"status 999":                 {tells("HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n"), 0, "", "", fault.Unavailable, "on its own side", false},
		"another protocol":           {tells("220 mail.test ESMTP " + canaryText + "\r\n"), 0, "", "", fault.ConnectionFailed, "check what answers", true},
		"an empty answer":            {tells("HTTP/1.1 204 No Content\r\n\r\n"), 0, "", "", 0, "", false},
		"an answer before the body":  {early(okAnswer), 0, large, "{}", 0, "", false},
		"a refusal before the body":  {early("HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), 0, large, "", fault.RequestRefused, "HTTP 413", false},
		"reset within the request":   {resets, 0, large, "", fault.ConnectionFailed, "connection broke", true},
	} {
		t.Run(name, func(t *testing.T) {
			calm(t)
			o := peer(t, c.behave)
			watch := &observed{}
			o.Observer = watch
			if c.timeout != 0 {
				o.Timeout = c.timeout
			}
			conn := open(t, o)
			body := post()
			if c.body != "" {
				body = NewBuffer(len(c.body))
				body.B = append(body.B, c.body...)
			}
			// Where nothing is to time out, a second is much more than is needed.
			within := time.Second
			if c.timeout != 0 {
				within = c.timeout
			}
			start := time.Now()
			got, err := timed(t, t.Context(), conn, Encrypt, body, within)
			status := StatusOK
			if c.cause != 0 {
				assertFault(t, err, c.cause, c.text)
				status = string(c.cause.Class())
			} else if err != nil || got != c.answer {
				t.Errorf("%q, %v, want %q", got, err, c.answer)
			}
			if took := time.Since(start); took < c.timeout {
				t.Errorf("the call gave up after %v of %v", took, c.timeout)
			}
			if list := strings.Join(watch.list, ","); list != "transit_encrypt "+status {
				t.Errorf("observed %q, want %q", list, status)
			}
			if counts := conn.breaker.machine.Counts(); (counts.TotalFailures == 1) != c.counts || (counts.TotalSuccesses == 1) == c.counts {
				t.Errorf("the breaker counts %+v, want a failure: %v", counts, c.counts)
			}
			conn.Close()
		})
	}
}

// readsNothing leaves the request where it is until the test ends.
func readsNothing(t *testing.T, _ *tls.Conn, _ *bufio.Reader) { <-t.Context().Done() }

// stays says something and waits for the client to go.
func stays(text string) conduct {
	return func(t *testing.T, conn *tls.Conn, r *bufio.Reader) {
		tells(text)(t, conn, r)
		_, _ = io.Copy(io.Discard, conn)
	}
}

// cutOff answers and ends TCP without a TLS alert, as one would who cannot forge
// TLS but shorten it.
func cutOff(text string) conduct {
	return func(t *testing.T, conn *tls.Conn, r *bufio.Reader) {
		tells(text)(t, conn, r)
		_ = conn.NetConn().Close()
	}
}

// early answers when it has seen the request's head, and reads the rest later.
func early(text string) conduct {
	return func(t *testing.T, conn *tls.Conn, r *bufio.Reader) {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, request.Body)
	}
}

// resets breaks the connection when it has seen a part of the request.
func resets(_ *testing.T, conn *tls.Conn, r *bufio.Reader) {
	_, _ = r.ReadByte()
	raw := conn.NetConn().(lingeringConn)
	_ = raw.SetLinger(0)
	_ = raw.TCPConn.Close()
}

// Every endpoint has its limit, and none of them takes an answer that is no
// answer as one. What a complete body means is for the caller to find out.
func TestOversizedAndMalformedAnswersOfEveryEndpoint(t *testing.T) {
	big := strings.Repeat("x", 5<<20)
	for _, op := range []Operation{Encrypt, Decrypt, MetadataRead, UpsertRead} {
		for name, c := range map[string]struct {
			answer string
			cause  fault.Cause
			text   string
		}{
			"oversized":       {okHead + "Content-Length: 5242880\r\n\r\n" + big, fault.Unavailable, fmt.Sprintf("larger than %d bytes", op.limit())},
			"oversized error": {"HTTP/1.1 400 No\r\nContent-Length: 5242880\r\n\r\n" + big, fault.Unavailable, "larger than 65536 bytes"},
			"short":           {okHead + "Content-Length: 100\r\n\r\n{}", fault.ConnectionFailed, "connection broke"},
			"HTML error":      {"HTTP/1.1 400 No\r\nContent-Length: 27\r\n\r\n<html>" + canaryText[:21], fault.RequestRefused, "audit log"},
			"HTML gateway":    {"HTTP/1.1 502 No\r\nContent-Length: 6\r\n\r\n<html>", fault.Unavailable, "HTTP 502"},
		} {
			t.Run(string(op)+"/"+name, func(t *testing.T) {
				calm(t)
				conn := open(t, peer(t, tells(c.answer)))
				_, err := timed(t, t.Context(), conn, op, nil, time.Second)
				assertFault(t, err, c.cause, c.text)
				conn.Close()
			})
		}
	}
}

// A caller's deadline and its end count in every phase as our own timeout does.
func TestNoCallOutlastsItsCaller(t *testing.T) {
	const patience = 100 * time.Millisecond
	for name, behave := range map[string]conduct{
		"headers":      stays(""),
		"slow headers": dribbles(10*time.Millisecond, true, okHead, "X-Slow: yes\r\n"),
		"body":         stays(okHead + "Content-Length: 100\r\n\r\n{"),
		"drip-fed":     dribbles(10*time.Millisecond, true, chunked, "1\r\nx\r\n"),
		"error":        stays("HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\n{"),
	} {
		for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
			t.Run(name+"/"+end.Error(), func(t *testing.T) {
				calm(t)
				o := peer(t, behave)
				o.Timeout = time.Hour
				c := open(t, o)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				cause := fault.DeadlineExceeded
				if end == context.Canceled {
					cause = fault.Canceled
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(patience, cancel)
				}
				defer cancel()
				_, err := timed(t, ctx, c, Encrypt, post(), patience)
				assertFault(t, err, cause, "")
				if !errors.Is(err, end) {
					t.Errorf("%v does not wrap %v", err, end)
				}
				c.Close()
			})
		}
	}
}
