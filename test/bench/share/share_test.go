package share

import (
	"fmt"
	"testing"

	"github.com/google/pprof/profile"
)

func TestPackageOf(t *testing.T) {
	for function, want := range map[string]string{
		"runtime.mallocgc": "runtime",
		"github.com/baokms/baokms/internal/provider/kms.(*Service).Encrypt":                                               "github.com/baokms/baokms/internal/provider/kms",
		"github.com/baokms/baokms/internal/provider/kms.serve[go.shape.struct { k8s.io/kms/apis/v2.state string },...]":   "github.com/baokms/baokms/internal/provider/kms",
		"github.com/baokms/baokms/internal/provider/kms.serve[go.shape.struct { k8s.io/kms/apis/v2.state string }].func1": "github.com/baokms/baokms/internal/provider/kms",
		"google.golang.org/grpc/internal/transport.(*recvBuffer[google.golang.org/grpc/internal/transport.recvMsg]).put":  "google.golang.org/grpc/internal/transport",
		"gopkg.in/yaml%2ev3.Unmarshal": "gopkg.in/yaml%2ev3",
		"main.main":                    "main",
		"_cgo_topofstack":              "_cgo_topofstack",
	} {
		if got := packageOf(function); got != want {
			t.Errorf("packageOf(%q) = %q, want %q", function, got, want)
		}
	}
}

func TestLayerOf(t *testing.T) {
	for function, want := range map[string]Layer{
		"github.com/baokms/baokms/internal/provider/kms.(*Service).Encrypt": Ours,
		"github.com/baokms/baokms/internal/providers.F":                     "",
		"github.com/baokms/baokms/test/bench.run":                           "",
		"google.golang.org/grpc.(*Server).handleStream":                     GRPC,
		"google.golang.org/protobuf/proto.Unmarshal":                        GRPC,
		"golang.org/x/net/http2.(*Framer).ReadFrame":                        GRPC,
		"golang.org/x/net/http2/hpack.(*Decoder).Write":                     GRPC,
		"k8s.io/kms/apis/v2.(*EncryptRequest).GetUid":                       GRPC,
		"net/http.(*Transport).RoundTrip":                                   HTTP,
		"crypto/tls.(*Conn).Write":                                          HTTP,
		"crypto/internal/fips140/aes/gcm.gcmAesEnc":                         HTTP,
		"vendor/golang.org/x/crypto/chacha20poly1305.(*x).Seal":             HTTP,
		"runtime.memmove":                   Runtime,
		"internal/runtime/syscall.Syscall6": Runtime,
		"internal/poll.(*FD).Write":         Runtime,
		"net.(*conn).Write":                 Runtime,
		"net/url.Parse":                     "",
		"encoding/json.Unmarshal":           "",
		"bytes.IndexByte":                   "",
		"sync.(*Mutex).Lock":                "",
	} {
		if got := layerOf(function); got != want {
			t.Errorf("layerOf(%q) = %q, want %q", function, got, want)
		}
	}
}

const (
	decode  = "github.com/baokms/baokms/internal/provider/transit.decode"
	service = "github.com/baokms/baokms/internal/provider/kms.(*Service).encrypt"
	server  = "google.golang.org/grpc.(*Server).handleStream"
)

// profileOf makes a profile of one sample type from stacks, the innermost frame first.
func profileOf(sampleType string, stacks map[int64][]string) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "other", Unit: "count"}, {Type: sampleType, Unit: "count"}},
		PeriodType: &profile.ValueType{Type: sampleType, Unit: "count"},
		Period:     1,
	}
	functions := map[string]*profile.Location{}
	for value, stack := range stacks {
		sample := &profile.Sample{Value: []int64{1000, value}}
		for _, name := range stack {
			location, ok := functions[name]
			if !ok {
				id := uint64(len(functions) + 1)
				f := &profile.Function{ID: id, Name: name}
				location = &profile.Location{ID: id, Address: id, Line: []profile.Line{{Function: f}}}
				functions[name] = location
				p.Function = append(p.Function, f)
				p.Location = append(p.Location, location)
			}
			sample.Location = append(sample.Location, location)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func TestOf(t *testing.T) {
	p := profileOf("cpu", map[int64][]string{
		1:   {"encoding/json.Unmarshal", decode, service, server, "runtime.goexit"},
		2:   {"runtime.mallocgc", decode, service, server, "runtime.goexit"},
		4:   {service, server},
		8:   {"internal/runtime/syscall.Syscall6", "internal/poll.(*FD).Write", "net.(*conn).Write", "crypto/tls.(*Conn).Write", service, server},
		16:  {"internal/runtime/syscall.Syscall6", "net.(*conn).Write", server},
		32:  {"runtime.scanobject", "runtime.gcBgMarkWorker"},
		64:  {"vdso"},
		128: {},
	})
	s, err := Of(p, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if s.Total != 255 {
		t.Errorf("total %d, want 255", s.Total)
	}
	if got, want := fmt.Sprint(s.Self), fmt.Sprint(map[Layer]int64{Ours: 1 + 4, Runtime: 2 + 8 + 16 + 32, Other: 64 + 128}); got != want {
		t.Errorf("self %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(s.Caused), fmt.Sprint(map[Layer]int64{Ours: 1 + 2 + 4, HTTP: 8, GRPC: 16, Runtime: 32, Other: 64 + 128}); got != want {
		t.Errorf("caused %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(s.Functions), fmt.Sprint([]Function{{service, 4}, {decode, 3}}); got != want {
		t.Errorf("functions %s, want %s", got, want)
	}
	if got := s.Percent(51); got != 20 {
		t.Errorf("51 of 255 is %v %%, want 20", got)
	}
}

func TestOfRefusesWhatItCannotRead(t *testing.T) {
	p := profileOf("cpu", nil)
	for sampleType, want := range map[string]string{
		"alloc_objects": "the profile has no samples of type alloc_objects",
		"cpu":           "the profile is empty: measure longer",
	} {
		if _, err := Of(p, sampleType); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %q", sampleType, err, want)
		}
	}
}

func TestDifference(t *testing.T) {
	before := profileOf("alloc_objects", map[int64][]string{10: {decode, service}})
	after := profileOf("alloc_objects", map[int64][]string{25: {decode, service}, 7: {server}})
	d, err := Difference(before, after)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Of(d, "alloc_objects")
	if err != nil {
		t.Fatal(err)
	}
	if s.Caused[Ours] != 15 || s.Caused[GRPC] != 7 || s.Total != 22 {
		t.Errorf("ours %d, gRPC %d, total %d; want 15, 7, 22", s.Caused[Ours], s.Caused[GRPC], s.Total)
	}
	if again, err := Of(before, "alloc_objects"); err != nil || again.Total != 10 {
		t.Errorf("Difference changed its argument: total %d, error %v", again.Total, err)
	}
}
