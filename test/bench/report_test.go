package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/test/bench/share"
)

// series is what a lane gave in one round of a second: n calls that took latency each.
func series(n int, latency time.Duration) []load.Slice {
	s := load.Slice{Took: time.Second}
	for range n {
		s.Latencies = append(s.Latencies, latency)
	}
	return []load.Slice{s}
}

// invented are results whose figures can be worked out by hand.
func invented() facts {
	us := time.Microsecond
	results := load.Results{}
	for lane, perCaller := range map[string]map[int]struct {
		calls   int
		latency time.Duration
	}{
		transitEncrypt:  {1: {1000, 900 * us}, 32: {2000, 16 * time.Millisecond}},
		providerEncrypt: {1: {950, 1040 * us}, 32: {1500, 21 * time.Millisecond}},
		emptyEncrypt:    {1: {9000, 98 * us}, 32: {8000, 4 * time.Millisecond}},
		transitDecrypt:  {1: {1100, 800 * us}, 32: {2000, 15 * time.Millisecond}},
		providerDecrypt: {1: {900, 951 * us}, 32: {1380, 23 * time.Millisecond}},
		emptyDecrypt:    {1: {8000, 101 * us}, 32: {6000, 5 * time.Millisecond}},
		providerStatus:  {16: {9000, 1700 * us}},
		emptyStatus:     {16: {10000, 1500 * us}},
	} {
		for n, s := range perCaller {
			results[load.Cell{Lane: lane, Callers: n}] = series(s.calls, s.latency)
		}
	}
	counted := func(ours, grpc, http int64) share.Shares {
		return share.Shares{Total: ours + grpc + http, Caused: map[share.Layer]int64{share.Ours: ours, share.GRPC: grpc, share.HTTP: http}}
	}
	return facts{
		results: results, plan: load.Plan{Rounds: 1, Slice: time.Second}, cpus: 2, calls: memoryCalls, resident: 30 << 20,
		allocations: allocations{"Encrypt": counted(2400, 16000, 10000), "Decrypt": counted(3300, 18000, 10000)},
	}
}

func TestFigures(t *testing.T) {
	yes, no := true, false
	want := []struct {
		name  string
		value float64
		met   *bool
	}{
		{"Encrypt ÷ bare Transit, 32 callers", 0.75, &yes},
		{"an empty hop alone would leave", 0.8, nil},
		{"Decrypt ÷ bare Transit, 32 callers", 0.69, &no},
		{"an empty hop alone would leave", 0.75, nil},
		{"Encrypt, added latency at 1 caller, median", 140_000, &yes},
		{"an empty hop alone takes", 98_000, nil},
		{"Decrypt, added latency at 1 caller, median", 151_000, &no},
		{"an empty hop alone takes", 101_000, nil},
		{"Status ÷ an empty handler, 16 callers", 0.9, &yes},
		{"resident memory after 100,000 calls", 30 << 20, &yes},
		{"allocations per Encrypt, ours", 12, nil},
		{"in gRPC and protobuf", 80, nil},
		{"in net/http and TLS", 50, nil},
		{"allocations per Decrypt, ours", 16.5, nil},
		{"in gRPC and protobuf", 90, nil},
		{"in net/http and TLS", 50, nil},
	}
	got := figuresOf(invented())
	if len(got) != len(want) {
		t.Fatalf("%d figures, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		same := (g.Met == nil) == (w.met == nil) && (g.Met == nil || *g.Met == *w.met)
		if g.Name != w.name || g.Value != w.value || !same {
			t.Errorf("figure %d is %q %v %s, want %q %v", i, g.Name, g.Value, g.verdict(), w.name, w.value)
		}
	}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		target target
		value  float64
		want   bool
	}{
		{target{AtLeast: 0.72}, 0.72, true},
		{target{AtLeast: 0.72}, 0.7199, false},
		{target{Below: 150}, 149.9, true},
		{target{Below: 150}, 150, false},
		{target{Below: 150}, -10, true},
	} {
		if got := c.target.met(c.value); got != c.want {
			t.Errorf("%+v with %v: %v", c.target, c.value, got)
		}
	}
}

func TestMemoryOfAShortRunIsNotJudged(t *testing.T) {
	f := invented()
	f.calls = memoryCalls - 1
	for _, g := range figuresOf(f) {
		if g.Unit == memory && (g.Met != nil || g.verdict() != "too short" || g.Name != "resident memory after 99,999 calls") {
			t.Errorf("%q is judged %s", g.Name, g.verdict())
		}
	}
}

func TestTable(t *testing.T) {
	f := invented()
	f.load = 7.3
	r := newReport(f)
	r.Machine.OS, r.Machine.Go = "linux/amd64", "go1.26.8"
	var out bytes.Buffer
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, line := range []string{
		"the built Transit server on 2 CPUs, linux/amd64, go1.26.8; 1 × 1s",
		"The machine was busy before the run (load average 7.3): the figures say little.",
		"                     callers    calls/s        p50        p95        p99",
		"Transit encrypt            1      1,000     900 µs     900 µs     900 µs",
		"                          32      2,000    16.0 ms    16.0 ms    16.0 ms",
		"empty hop Status          16     10,000    1.50 ms    1.50 ms    1.50 ms",
		"Encrypt ÷ bare Transit, 32 callers                  0.75      ≥ 0.72  met",
		"  an empty hop alone would leave                    0.80",
		"Decrypt ÷ bare Transit, 32 callers                  0.69      ≥ 0.70  NOT MET",
		"Encrypt, added latency at 1 caller, median        140 µs    < 150 µs  met",
		"resident memory after 100,000 calls             30.0 MiB  < 40.0 MiB  met",
		"allocations per Decrypt, ours                       16.5",
	} {
		if !strings.Contains("\n"+out.String(), "\n"+line+"\n") {
			t.Errorf("the line %q is not in\n%s", line, out.String())
		}
	}
	r.Machine.Load = quietLoad
	out.Reset()
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "busy") {
		t.Error("a quiet machine is called busy")
	}
}

func TestJSON(t *testing.T) {
	f := invented()
	f.openBao = true
	var out bytes.Buffer
	if err := newReport(f).writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	var r report
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	first := row{transitEncrypt, 1, load.Summary{PerSecond: 1000, P50: 900_000, P95: 900_000, P99: 900_000, Slowest: 900_000, Calls: 1000}}
	if r.Server != "OpenBao" || r.Rounds != 1 || r.SliceMS != 1000 || len(r.Lanes) != 14 || r.Lanes[0] != first {
		t.Errorf("%+v", r)
	}
	if g := r.Figures[0]; g.Value != 0.75 || g.Target == nil || g.Target.AtLeast != 0.72 || g.Met == nil || !*g.Met {
		t.Errorf("the first figure is %+v", g)
	}
}

func TestTimeShares(t *testing.T) {
	shares := timeShares{
		Shares: share.Shares{
			Self:      map[share.Layer]int64{share.Ours: 100_000, share.Runtime: 900_000},
			Caused:    map[share.Layer]int64{share.Ours: 250_000, share.GRPC: 500_000, share.Runtime: 250_000},
			Total:     1_000_000,
			Functions: []share.Function{{Name: "github.com/baokms/baokms/internal/provider/kms.serve[go.shape.struct { a/b.C }]", Value: 250_000}},
		},
		callers: 32, calls: 10, took: 2 * time.Second, file: "cpu.pprof", allocations: invented().allocations,
	}
	var out bytes.Buffer
	if err := shares.write(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"10 Encrypts and Decrypts by 32 callers, 5 a second; CPU a call: 100 µs",
		"ours                     10.0 %     10.0 µs           25.0 %     25.0 µs",
		"gRPC and protobuf         0.0 %     0.00 µs           50.0 %     50.0 µs",
		"   25.00 %     25.0 µs   kms.serve",
		"Allocations per Encrypt: 12.0 ours, 80.0 in gRPC, 50.0 in net/http. Ours:",
	} {
		if !strings.Contains("\n"+out.String(), "\n"+line+"\n") {
			t.Errorf("the line %q is not in\n%s", line, out.String())
		}
	}
	if strings.Contains(out.String(), "net/http and TLS") {
		t.Error("a layer with nothing in it is printed")
	}
	out.Reset()
	if err := shares.write(&out, true); err != nil {
		t.Fatal(err)
	}
	var encoded struct {
		Calls  int
		Layers []struct {
			Layer    share.Layer
			CausedNS int64
		}
	}
	if err := json.Unmarshal(out.Bytes(), &encoded); err != nil {
		t.Fatal(err)
	}
	if encoded.Calls != 10 || len(encoded.Layers) != 5 || encoded.Layers[0].Layer != share.Ours || encoded.Layers[0].CausedNS != 250_000 {
		t.Errorf("%+v", encoded)
	}
}

func TestNumbers(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.00 µs", 87_100: "87.1 µs", 999_000: "999 µs", 1_320_000: "1.32 ms", 45_600_000: "45.6 ms", 2_010_000_000: "2.01 s",
		-87_100: "-87.1 µs", -1_320_000: "-1.32 ms", -140_000: "-140 µs",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%d) = %q, want %q", d, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 12345.6: "12,346", 999999: "999,999", 1234567: "1,234,567"} {
		if got := thousands(v); got != want {
			t.Errorf("thousands(%v) = %q, want %q", v, got, want)
		}
	}
	for name, want := range map[string]string{
		"a/b/kms.(*Service).encrypt":        "kms.(*Service).encrypt",
		"a/kms.serve[go.shape.x/y.z].func1": "kms.serve",
		"a/kms.averyverylongfunctionname":   "kms.averyverylongfunc…",
	} {
		if got := short(name, 22); got != want {
			t.Errorf("short(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestProgressFits(t *testing.T) {
	for _, lane := range []string{emptyEncrypt, providerDecrypt} {
		text := progressText(181, 182, 100*time.Minute, lane+", 32 callers")
		if n := len([]rune(text)); n >= 80 {
			t.Errorf("%d columns: %q", n, text)
		}
	}
	if got, want := progressText(50, 200, 10*time.Second, "x"), "measuring  25 %, x, about 30s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := progressText(0, 200, 0, "x"), "measuring   0 %, x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParseResident(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  int64
		wrong string
	}{
		{text: "Name:\tx\nVmHWM:\t   99999 kB\nVmRSS:\t   25000 kB\nThreads:\t9\n", want: 25000 << 10},
		{text: "Name:\tx\nState:\tZ (zombie)\n", wrong: "the process's status has no VmRSS: it has ended, or this is not Linux"},
		{text: "VmRSS:\tmany kB\n", wrong: `VmRSS is "many kB": want a number of kB`},
		{text: "VmRSS:\t0 kB\n", wrong: `VmRSS is "0 kB": want a number of kB`},
	} {
		got, err := parseResident(c.text)
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && err.Error() != c.wrong {
			t.Errorf("%q: %d, error %v; want %d, %q", c.text, got, err, c.want, c.wrong)
		}
	}
}
