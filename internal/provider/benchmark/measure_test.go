package benchmark

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/version"
)

// planned is the plan for some options.
func planned(t *testing.T, o Options) plan {
	t.Helper()
	p, err := o.plan(3)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{
			Config: testConfig(t, "/run"), Build: version.Info{Version: "v1.2.3"}, Sizes: []int{700, 32}, Duration: 400 * time.Millisecond,
			Now: func() time.Time { return time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC) },
		}
		target, _, _ := fakes(t, o.Config)
		p := planned(t, o)
		results, err := target.measure(t.Context(), p, newScreen(nil, 0))
		if err != nil {
			t.Fatal(err)
		}
		r := o.report(p, results)
		if r.Kind != "BenchmarkReport" || r.Result != command.Pass || r.GeneratedAt != "2026-05-04T03:02:01Z" || *r.Provider != (command.Provider{
			Name: "the-provider", Version: "v1.2.3", Fingerprint: o.Config.Fingerprint(),
		}) || r.Benchmark.PayloadBytes != 0 || r.Benchmark.CPUs < 1 {
			t.Errorf("%+v", r)
		}
		figures := func(calls int, perSecond float64, micros int64) command.Figures {
			return command.Figures{Calls: calls, CallsPerSec: perSecond, P50Micros: micros, P95Micros: micros, P99Micros: micros, SlowestMicros: micros}
		}
		want := []command.BenchmarkRow{
			{Operation: "status", Callers: 1, Socket: figures(400, 1000, 1000)},
			{Operation: "status", Callers: 8, Socket: figures(3200, 8000, 1000)},
		}
		for _, size := range []int{32, 700} {
			for _, operation := range []string{"encrypt", "decrypt"} {
				one, eight := figures(80, 200, 5000), figures(640, 1600, 5000)
				want = append(want,
					command.BenchmarkRow{Operation: operation, PayloadBytes: size, Callers: 1, Socket: figures(40, 100, 10000), Bare: &one, Ratio: 0.5},
					command.BenchmarkRow{Operation: operation, PayloadBytes: size, Callers: 8, Socket: figures(320, 800, 10000), Bare: &eight, Ratio: 0.5})
			}
		}
		if len(r.Benchmark.Rows) != len(want) {
			t.Fatalf("%d rows, want %d", len(r.Benchmark.Rows), len(want))
		}
		for i, got := range r.Benchmark.Rows {
			w := want[i]
			if (got.Bare == nil) != (w.Bare == nil) || got.Bare != nil && *got.Bare != *w.Bare {
				t.Errorf("row %d: bare %+v, want %+v", i, got.Bare, w.Bare)
			}
			if got.Bare, w.Bare = nil, nil; got != w {
				t.Errorf("row %d: %+v, want %+v", i, got, w)
			}
		}
	})
}

func TestOneSizeIsTheReports(t *testing.T) {
	o := Options{Config: testConfig(t, "/run"), Sizes: []int{64}}
	if got := o.report(planned(t, o), nil).Benchmark.PayloadBytes; got != 64 {
		t.Errorf("payloadBytes is %d, want 64", got)
	}
}

// The first call that fails, or answers wrongly, ends the run and is named.
func TestACallThatFails(t *testing.T) {
	const distrust = ": trust no new ciphertext of this node; check what stands between it and OpenBao, and run `bao-kms-provider doctor`, which says what is wrong"
	const another = "the answer is wrong, another plaintext than the one that was encrypted" + distrust
	const notOurs = "the answer is wrong, a ciphertext that is not of the active key version or too large" + distrust
	const promoted = "the provider changed its active key during the run: run the benchmark again when the promotion is over"
	encrypts := func(keyID string, ciphertext []byte) func(*fakeKMS, *fakeBare) {
		return func(k *fakeKMS, _ *fakeBare) {
			k.encrypt = func([]byte) (*kmsapi.EncryptResponse, error) {
				return &kmsapi.EncryptResponse{KeyId: keyID, Ciphertext: ciphertext}, nil
			}
		}
	}
	keyID := bindingOf(t, testConfig(t, "/run"), 3).KeyID()
	for _, c := range []struct {
		name       string
		change     func(*fakeKMS, *fakeBare)
		lane, want string
	}{
		{"encrypted under another key", encrypts("another", wrap(3, []byte("x"))), "Encrypt of 32 bytes through the socket", promoted},
		{"encrypted under another version", encrypts(keyID, wrap(2, []byte("x"))), "Encrypt of 32 bytes through the socket", notOurs},
		{"no ciphertext", encrypts(keyID, wrap(3, nil)), "Encrypt of 32 bytes through the socket", notOurs},
		{"too large", encrypts(keyID, wrap(3, make([]byte, 800))), "Encrypt of 32 bytes through the socket", notOurs},
		{"something else encrypted", encrypts(keyID, wrap(3, []byte("x"))), "Decrypt of 32 bytes through the socket", another},
		{"decrypted to something else", func(k *fakeKMS, _ *fakeBare) {
			k.decrypt = func(*kmsapi.EncryptResponse) (*kmsapi.DecryptResponse, error) {
				return &kmsapi.DecryptResponse{Plaintext: []byte("x")}, nil
			}
		}, "Decrypt of 32 bytes through the socket", another},
		{"bare, decrypted to something else", func(_ *fakeKMS, b *fakeBare) {
			b.decrypt = func([]byte) ([]byte, error) { return []byte("x"), nil }
		}, "bare Transit decrypt of 32 bytes", another},
		{"unhealthy", func(k *fakeKMS, _ *fakeBare) {
			k.status = func() (*kmsapi.StatusResponse, error) {
				return &kmsapi.StatusResponse{Healthz: "deep_probe_failed"}, nil
			}
		}, "Status through the socket", "the provider became unhealthy (deep_probe_failed): run `bao-kms-provider doctor`, which says what is wrong"},
		{"another key_id", func(k *fakeKMS, _ *fakeBare) {
			k.status = func() (*kmsapi.StatusResponse, error) {
				return &kmsapi.StatusResponse{Healthz: "ok", KeyId: "another"}, nil
			}
		}, "Status through the socket", promoted},
		{"refused through the socket", func(k *fakeKMS, _ *fakeBare) {
			k.encrypt = func([]byte) (*kmsapi.EncryptResponse, error) {
				return nil, grpcstatus.Error(codes.ResourceExhausted, fault.ConcurrencyLimited.Text())
			}
		}, "Encrypt of 32 bytes through the socket", "too many requests of this kind are being served [concurrency_limit]: " +
			"others use the provider at the same time; use fewer callers, or measure when the node is quieter"},
		{"failed bare", func(_ *fakeKMS, b *fakeBare) {
			b.encrypt = func([]byte) ([]byte, error) {
				return nil, fault.New(fault.RateLimited, "encrypt with Transit", "")
			}
		}, "bare Transit encrypt of 32 bytes", "encrypt with Transit: OpenBao limits the rate of requests [openbao_rate_limited]: " +
			"the limit holds for the API server's requests too; use fewer callers, or raise it in OpenBao"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Config: testConfig(t, "/run"), Callers: []int{2}}
				target, k, b := fakes(t, o.Config)
				c.change(k, b)
				results, err := target.measure(t.Context(), planned(t, o), newScreen(nil, 0))
				if want := c.lane + " with 2 callers: " + c.want; results != nil || err == nil || err.Error() != want {
					t.Errorf("error %v\n want %s", err, want)
				}
			})
		})
	}
}

// A wrong answer of the last turn is found too, although no turn decrypts it.
func TestTheLastAnswersAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Config: testConfig(t, "/run"), Callers: []int{1}, Duration: 400 * time.Millisecond}
		target, k, _ := fakes(t, o.Config)
		start, right := time.Now(), wrap(3, []byte("right"))
		p := planned(t, o)
		// Every other round goes backwards, and so does the last: its turns end with
		// Encrypt bare, Encrypt through the socket, Status. What is wrong in the one
		// before the last is decrypted in no turn.
		warm := 2 * kept * (10 + 5) * time.Millisecond
		last := warm + time.Duration(p.turns.Turns(loads(target.lanes(p)))-2)*p.turns.Slice
		k.encrypt = func(plaintext []byte) (*kmsapi.EncryptResponse, error) {
			time.Sleep(k.takes)
			answer := wrap(3, plaintext)
			if time.Since(start) > last {
				answer = right
			}
			return &kmsapi.EncryptResponse{Ciphertext: answer, KeyId: k.binding.KeyID()}, nil
		}
		results, err := target.measure(t.Context(), p, newScreen(nil, 0))
		if turns := time.Duration(p.turns.Turns(loads(target.lanes(p)))) * p.turns.Slice; time.Since(start) < warm+turns {
			t.Errorf("it ended after %v, in one of the turns", time.Since(start))
		}
		const want = "Decrypt of 32 bytes through the socket with 1 caller: the answer is wrong"
		if results != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	})
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(3*time.Second, cancel)
		o := Options{Config: testConfig(t, "/run"), Duration: time.Minute}
		target, _, _ := fakes(t, o.Config)
		results, err := target.measure(ctx, planned(t, o), newScreen(nil, 0))
		if results != nil || !errors.Is(err, context.Canceled) || time.Since(start) != 3*time.Second {
			t.Errorf("error %v after %v, want the interruption after 3s", err, time.Since(start))
		}
	})
}

// A call that is never answered ends the run.
func TestACallHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Config: testConfig(t, "/run")}
		target, k, _ := fakes(t, o.Config)
		k.takes = time.Hour
		start := time.Now()
		_, err := target.measure(t.Context(), planned(t, o), newScreen(nil, 0))
		if err == nil || time.Since(start) != callTimeout || !strings.Contains(err.Error(), "[timeout]: use fewer callers; if it happens with one, run") {
			t.Errorf("error %v after %v, want one of class timeout after %v", err, time.Since(start), callTimeout)
		}
	})
}

func TestProgressIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := Options{Config: testConfig(t, "/run"), Callers: []int{1, 8}, Duration: 400 * time.Millisecond}
		target, _, _ := fakes(t, o.Config)
		if _, err := target.measure(t.Context(), planned(t, o), newScreen(&out, 0)); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\r\x1b[K")
		if strings.Contains(out.String(), "\n") || len(lines) != 1+1+4*10+1+1 || lines[0] != "" || lines[len(lines)-1] != "" {
			t.Fatalf("it is not one line that is written for each turn and cleared in the end: %q", out.String())
		}
		for i, want := range map[int]string{
			1:  "warming up, then 4s of measuring",
			2:  "0%, 4s left, Status through the socket with 1 caller",
			22: "50%, 2s left, Status through the socket with 1 caller",
			42: "checking the last answers",
		} {
			if lines[i] != want {
				t.Errorf("line %d is %q, want %q", i, lines[i], want)
			}
		}
	})
}

func TestProgressFitsTheTerminal(t *testing.T) {
	const whole = "10%, 14h59m51s left, Encrypt of 731 bytes through the socket with 1023 callers"
	for width, want := range map[int]string{
		0: whole, 80: whole, 200: whole, 79: whole[:78], 40: "10%, 14h59m51s left, Encrypt of 731 byt", 4: "10%", 1: "",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s := newScreen(&out, width)
			s.plan(200, 15*time.Minute)
			out.Reset()
			s.begin()
			s.done = 20
			time.Sleep(99*time.Minute + 59*time.Second)
			s.turn(load.Cell{Lane: laneName(opEncrypt, false, 731), Callers: 1023})
			if out.String() != "\r\x1b[K"+want {
				t.Errorf("%d columns: %q, want %q", width, out.String(), want)
			}
		})
	}
}
