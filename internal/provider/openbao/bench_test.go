package openbao

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

const benchAnswer = `{"request_id":"0c9a","data":{"ciphertext":"vault:v1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}`

func answerBench(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, benchAnswer)
}

// share runs work b.N times from the given number of goroutines. Besides wall
// time it reports the processor time of both ends, which other load on the
// machine changes less.
func share(b *testing.B, callers int, work func()) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				work()
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) int64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkProtocol compares HTTP/1.1 and HTTP/2 for small requests to a local
// TLS server: the ground for the choice in newTransport.
func BenchmarkProtocol(b *testing.B) {
	for _, version := range []int{1, 2} {
		for _, callers := range []int{1, 32} {
			b.Run(fmt.Sprintf("http%d/callers=%d", version, callers), func(b *testing.B) {
				server := httptest.NewUnstartedServer(http.HandlerFunc(answerBench))
				server.Config.ErrorLog = quiet
				server.EnableHTTP2 = true
				ca := newAuthority(b)
				server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(b, nil)}}
				server.StartTLS()
				defer server.Close()
				pool, err := readRoots(ca.file(b))
				if err != nil {
					b.Fatal(err)
				}
				protocols := new(http.Protocols)
				protocols.SetHTTP1(version == 1)
				protocols.SetHTTP2(version == 2)
				transport := &http.Transport{
					Protocols:           protocols,
					MaxIdleConnsPerHost: 32,
					TLSClientConfig:     &tls.Config{RootCAs: pool, ServerName: "bao.test"},
				}
				defer transport.CloseIdleConnections()
				body := strings.Repeat("x", 600)
				share(b, callers, func() {
					r, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					answer, err := transport.RoundTrip(r)
					if err != nil || answer.ProtoMajor != version {
						b.Errorf("%v", err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				})
			})
		}
	}
}

// BenchmarkCall is a call with everything that net/http and TLS cost.
func BenchmarkCall(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := open(b, serve(b, answerBench))
			e := endpoint(b, c, Encrypt)
			token := NewSecret(canaryToken)
			share(b, callers, func() {
				answer, err := c.Call(b.Context(), e, token, post())
				if err != nil {
					b.Error(err)
					return
				}
				answer.Release()
			})
		})
	}
}
