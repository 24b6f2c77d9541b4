package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	kmsapi "k8s.io/kms/apis/v2"
)

// callWithin calls a method with a deadline that the server knows and this client does not keep: a gRPC client would give up by itself,
// whatever the server does. It returns when the server has ended the call.
func (s *subject) callWithin(t *testing.T, method string, message []byte, deadline time.Duration) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.Socket)
		},
	}
	defer client.CloseIdleConnections()
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	ctx := limited(t)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+service+method, bytes.NewReader(append(frame, message...)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	r.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", deadline.Milliseconds()))
	answer, err := client.RoundTrip(r)
	if ctx.Err() != nil {
		t.Fatalf("%s: the server has not ended the call %v after its deadline", method, patience)
	}
	// After the deadline a server ends the stream: with a status, or like gRPC's own, with a reset and none.
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if code := answer.Header.Get("Grpc-Status"); code == "0" {
		t.Errorf("%s succeeded after its deadline", method)
	}
}

// counted reads a counter of requests from the metrics.
func (s *subject) counted(t *testing.T, method string, code codes.Code) int {
	t.Helper()
	text, err := s.Metrics(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile(fmt.Sprintf(`(?m)^openbao_kms_grpc_requests_total\{method="%s",status="%s"\} (\d+)$`, method, code))
	found := sample.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the metrics have no counter of %s with %v", method, code)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// callerGone lets the caller's deadline pass, and then the caller go away, while OpenBao does not answer.
func callerGone(t *testing.T, s *subject) {
	f := s.freshSubject(t, Settings{OpenBaoTimeout: 40 * time.Second})
	plaintext := plaintextOf(32)
	r := f.encrypt(t, plaintext)
	for _, c := range []struct {
		method, part string
		message      proto.Message
	}{
		{"Encrypt", pathEncrypt, &kmsapi.EncryptRequest{Plaintext: plaintext, Uid: uid()}},
		{"Decrypt", pathDecrypt, decryptRequest(r)},
	} {
		message, err := proto.Marshal(c.message)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(c.method+", deadline", func(t *testing.T) {
			// gRPC's server cancels a call whose deadline has passed, and the handler may see either first.
			gone := func() int {
				return f.counted(t, c.method, codes.DeadlineExceeded) + f.counted(t, c.method, codes.Canceled)
			}
			before := gone()
			held := f.Hold(c.part, -1)
			defer held.Release()
			f.callWithin(t, c.method, message, 300*time.Millisecond)
			// The request to OpenBao is given up too.
			if err := held.Await(limited(t), 0); err != nil {
				t.Error(err)
			}
			eventually(t, "the metrics count one passed deadline more", func() bool {
				return gone() == before+1
			})
		})
		t.Run(c.method+", cancellation", func(t *testing.T) {
			before := f.counted(t, c.method, codes.Canceled)
			held := f.Hold(c.part, -1)
			defer held.Release()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan error, 1)
			go func() {
				_, err := f.send(ctx, c.method, message)
				answered <- err
			}()
			if err := held.Await(limited(t), 1); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-answered; grpcstatus.Code(err) != codes.Canceled {
				t.Errorf("the caller got %v, want %v", err, codes.Canceled)
			}
			if err := held.Await(limited(t), 0); err != nil {
				t.Error(err)
			}
			eventually(t, "the metrics count one cancellation more", func() bool {
				return f.counted(t, c.method, codes.Canceled) == before+1
			})
		})
	}
	f.decrypts(t, decryptRequest(f.encrypt(t, plaintext)), plaintext)
}
