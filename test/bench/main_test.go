package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain makes this test binary a child of the benchmark when it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := play(os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args  string
		want  options
		wrong string
	}{
		{args: "", want: options{rounds: 7, slice: 500 * time.Millisecond}},
		{args: "-quick", want: options{quick: true, rounds: 3, slice: 200 * time.Millisecond}},
		{args: "-quick -rounds 5", want: options{quick: true, rounds: 5, slice: 200 * time.Millisecond}},
		{args: "-output json -slice 2s", want: options{json: true, rounds: 7, slice: 2 * time.Second}},
		{args: "-output table", want: options{rounds: 7, slice: 500 * time.Millisecond}},
		{args: "-profile x", want: options{profile: "x", rounds: 7, slice: 500 * time.Millisecond}},
		{args: "-output yaml", wrong: "it is table or json"},
		{args: "-rounds 1001", wrong: "-rounds is 1001: give 1 to 1000"},
		{args: "-rounds -1", wrong: "-rounds is -1: give 1 to 1000"},
		{args: "-slice 9ms", wrong: "-slice is 9ms: give 10ms to 1m"},
		{args: "-slice 61s", wrong: "-slice is 1m1s: give 10ms to 1m"},
		{args: "quick", wrong: `"quick" is not understood: there are only flags`},
		{args: "-fast", wrong: "flag provided but not defined: -fast"},
	} {
		var said bytes.Buffer
		got, err := parse(strings.Fields(c.args), &said)
		if got != c.want {
			t.Errorf("%q gives %+v, want %+v", c.args, got, c.want)
		}
		if (err != nil) != (c.wrong != "") || !strings.Contains(said.String(), c.wrong) {
			t.Errorf("%q: error %v, said %q, want %q", c.args, err, said.String(), c.wrong)
		}
	}
}

// temporary gives run a directory of the test's own to make its directory in, short enough for sockets.
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

// quietScreen is a screen that nobody sees.
func quietScreen(t *testing.T) *screen {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return newScreen(f)
}

// nothingIn checks that run has taken its world down.
func nothingIn(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("%d entries are left behind, the first is %s", len(left), left[0].Name())
	}
}

// TestRun runs the whole benchmark, as short as it can be, against the real servers. What it measures decides nothing.
func TestRun(t *testing.T) {
	dir := temporary(t)
	var out bytes.Buffer
	o := options{quick: true, json: true, rounds: 1, slice: 10 * time.Millisecond}
	if err := run(t.Context(), o, &out, quietScreen(t)); err != nil {
		t.Fatal(err)
	}
	nothingIn(t, dir)
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if len(r.Lanes) != 6*len(callers)+2*len(statusCallers) {
		t.Errorf("%d lanes were measured, want %d", len(r.Lanes), 6*len(callers)+2*len(statusCallers))
	}
	for _, l := range r.Lanes {
		if l.PerSecond <= 0 || l.P50 <= 0 || l.P50 > l.P95 || l.P95 > l.P99 {
			t.Errorf("%s with %d callers has impossible figures: %+v", l.Lane, l.Callers, l.Summary)
		}
	}
	for _, f := range r.Figures {
		if f.Unit != latency && f.Value <= 0 {
			t.Errorf("%s is %v", f.Name, f.Value)
		}
	}
}

func TestRunProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	dir := temporary(t)
	var out bytes.Buffer
	if err := run(t.Context(), options{quick: true, profile: file}, &out, quietScreen(t)); err != nil {
		t.Fatal(err)
	}
	nothingIn(t, dir)
	for _, want := range []string{"The profile is in " + file, "\nours ", "\ngRPC and protobuf ", "\nAllocations per Encrypt: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("the profile: %v, error %v", info, err)
	}
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	dir := temporary(t)
	ctx, cancel := context.WithCancel(t.Context())
	// Interrupted once Transit, the first of the servers, is on its way.
	go func() {
		for ctx.Err() == nil {
			if logs, _ := filepath.Glob(filepath.Join(dir, "*", "transit", "transit.log")); len(logs) > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var out bytes.Buffer
	err := run(ctx, options{quick: true, rounds: 1, slice: time.Second}, &out, quietScreen(t))
	cancel()
	if !errors.Is(err, context.Canceled) || out.Len() != 0 {
		t.Errorf("error %v, output %q; want the interruption and nothing", err, out.String())
	}
	nothingIn(t, dir)
}
