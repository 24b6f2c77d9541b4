package benchmark

import (
	"encoding/base64"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
)

func TestPlan(t *testing.T) {
	slices := func(d time.Duration) load.Plan { return load.Plan{Rounds: 4, Slice: d / 4} }
	for _, c := range []struct {
		name   string
		o      Options
		server []string
		want   plan
	}{
		{"the defaults", Options{}, nil, plan{[]int{32}, []int{1, 8}, []int{1, 8}, slices(1200 * time.Millisecond)}},
		{"what is asked for", Options{Sizes: []int{731, 1, 731}, Callers: []int{31, 2}, Duration: time.Second}, nil,
			plan{[]int{1, 731}, []int{2, 31}, []int{2}, slices(time.Second)}},
		{"the shortest", Options{Duration: 100 * time.Millisecond}, nil, plan{[]int{32}, []int{1, 8}, []int{1, 8}, slices(100 * time.Millisecond)}},
		{"the longest", Options{Duration: 10 * time.Minute}, nil, plan{[]int{32}, []int{1, 8}, []int{1, 8}, slices(10 * time.Minute)}},
		{"the defaults under a cap of 8", Options{}, []string{"  maxConcurrentEncrypt: 8"}, plan{[]int{32}, []int{1}, []int{1}, slices(1200 * time.Millisecond)}},
		{"the defaults under a cap of 9", Options{}, []string{"  maxConcurrentDecrypt: 9"}, plan{[]int{32}, []int{1, 8}, []int{1, 8}, slices(1200 * time.Millisecond)}},
		{"no Status", Options{}, []string{"  maxConcurrentStatus: 1"}, plan{[]int{32}, []int{1, 8}, nil, slices(1200 * time.Millisecond)}},
	} {
		c.o.Config = testConfig(t, "/run", c.server...)
		got, err := c.o.plan(1)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, error %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	const room = ", because KMS v2 allows ciphertexts of fewer than 1024 bytes"
	const meanwhile = " allows, and the API server's requests would be refused meanwhile: use at most "
	for _, c := range []struct {
		o      Options
		server []string
		want   string
	}{
		{Options{Sizes: []int{32, 0}}, nil, "a plaintext of 0 bytes: give 1 to 731" + room},
		{Options{Sizes: []int{732}}, nil, "a plaintext of 732 bytes: give 1 to 731" + room},
		{Options{Callers: []int{1, 0}}, nil, "0 callers: at least 1 is needed"},
		{Options{Callers: []int{32}}, nil, "32 callers would take every place that server.maxConcurrentEncrypt (32)" + meanwhile + "31, or raise it"},
		{Options{Callers: []int{10}}, []string{"  maxConcurrentDecrypt: 9"}, "10 callers would take every place that server.maxConcurrentDecrypt (9)" + meanwhile + "8, or raise it"},
		{Options{}, []string{"  maxConcurrentEncrypt: 1"}, "server.maxConcurrentEncrypt is 1: the benchmark would take the only place, and the API server's requests would be refused; raise it to measure"},
		{Options{Duration: 99 * time.Millisecond}, nil, "a duration of 99ms for each series: give 100ms to 10m0s"},
		{Options{Duration: 10*time.Minute + 1}, nil, "a duration of 10m0.000000001s for each series: give 100ms to 10m0s"},
		{Options{Duration: -time.Second}, nil, "a duration of -1s for each series: give 100ms to 10m0s"},
	} {
		c.o.Config = testConfig(t, "/run", c.server...)
		_, err := c.o.plan(1)
		var wrong *UsageError
		if !errors.As(err, &wrong) || err.Error() != c.want {
			t.Errorf("error %v, want the usage error %q", err, c.want)
		}
	}
}

// The largest plaintext is the largest: one byte more makes a ciphertext that KMS
// v2 does not allow.
func TestLargestPlaintext(t *testing.T) {
	for _, c := range []struct{ version, want int }{{1, 731}, {9, 731}, {10, 731}, {100, 731}, {1000, 728}, {999_999_999, 725}} {
		got := largestPlaintext(c.version)
		length := func(plaintext int) int {
			return len(wrap(c.version, nil)) + base64.StdEncoding.EncodedLen(12+plaintext+16)
		}
		if got != c.want || length(got) >= 1024 || length(got+1) < 1024 {
			t.Errorf("version %d: %d, want %d; it makes %d bytes, one more %d", c.version, got, c.want, length(got), length(got+1))
		}
	}
}
