package benchmark

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
	"github.com/baokms/baokms/internal/provider/transit"
)

// UsageError is an option that asks for what cannot be measured.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// The defaults and limits of a run.
const (
	defaultSize     = 32
	defaultDuration = 1200 * time.Millisecond
	minDuration     = 100 * time.Millisecond
	maxDuration     = 10 * time.Minute
	// rounds is how often every series has its turn: often enough that a slow
	// moment of the machine falls on both sides of a comparison, and a turn is long
	// enough for some calls.
	rounds = 4
)

var defaultCallers = []int{1, 8}

// plan is what a run does: sorted, without repetitions.
type plan struct {
	sizes, callers []int
	// statusCallers are those of callers that Status's own cap allows.
	statusCallers []int
	turns         load.Plan
}

// plan holds the options against the configuration's caps and against KMS v2's
// limit for a ciphertext of the key's version.
func (o Options) plan(version int) (plan, error) {
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.Duration < minDuration || o.Duration > maxDuration {
		return plan{}, usage("a duration of %v for each series: give %v to %v", o.Duration, minDuration, maxDuration)
	}
	p := plan{turns: load.Plan{Rounds: rounds, Slice: o.Duration / rounds}}
	var err error
	if p.sizes, err = o.sizes(version); err != nil {
		return plan{}, err
	}
	if p.callers, err = o.callers(); err != nil {
		return plan{}, err
	}
	for _, n := range p.callers {
		if n < o.Config.Server.MaxConcurrentStatus {
			p.statusCallers = append(p.statusCallers, n)
		}
	}
	return p, nil
}

func (o Options) sizes(version int) ([]int, error) {
	if len(o.Sizes) == 0 {
		return []int{defaultSize}, nil
	}
	largest := largestPlaintext(version)
	for _, n := range o.Sizes {
		if n < 1 || n > largest {
			return nil, usage("a plaintext of %d bytes: give 1 to %d, because KMS v2 allows ciphertexts of fewer than %d bytes", n, largest, transit.MaxCiphertext)
		}
	}
	return sorted(o.Sizes), nil
}

func (o Options) callers() ([]int, error) {
	field, limit := "server.maxConcurrentEncrypt", o.Config.Server.MaxConcurrentEncrypt
	if d := o.Config.Server.MaxConcurrentDecrypt; d < limit {
		field, limit = "server.maxConcurrentDecrypt", d
	}
	asked := o.Callers
	if len(asked) == 0 {
		asked = slices.DeleteFunc(slices.Clone(defaultCallers), func(n int) bool { return n >= limit && n > 1 })
	}
	for _, n := range asked {
		switch {
		case n < 1:
			return nil, usage("%d callers: at least 1 is needed", n)
		case limit == 1:
			return nil, usage("%s is 1: the benchmark would take the only place, and the API server's requests would be refused; raise it to measure", field)
		case n >= limit:
			return nil, usage("%d callers would take every place that %s (%d) allows, and the API server's requests would be refused meanwhile: use at most %d, or raise it",
				n, field, limit, limit-1)
		}
	}
	return sorted(asked), nil
}

func sorted(numbers []int) []int { return slices.Compact(slices.Sorted(slices.Values(numbers))) }

// What Transit puts around a plaintext before it encodes it: the nonce and the
// tag of AES-GCM.
const overhead = 12 + 16

// largestPlaintext is the largest plaintext whose ciphertext under a version,
// "vault:vN:" and base64, stays below KMS v2's limit.
func largestPlaintext(version int) int {
	room := transit.MaxCiphertext - 1 - len("vault:v:") - len(strconv.Itoa(version))
	return base64.StdEncoding.DecodedLen(room/4*4) - overhead
}
