package command

import "slices"

// Result is how a check ended.
type Result string

// The results.
const (
	Pass Result = "pass"
	Warn Result = "warn"
	// Skip: it could not be judged or was not asked for; never to be read as a
	// pass. SkippedBecause or Message says why.
	Skip Result = "skip"
	Fail Result = "fail"
)

// Impact is what is at stake when a check does not pass.
type Impact string

// The impacts (design: config-and-cli, doctor's checks).
const (
	// Safety: data could be bound to a wrong key, exposed, or become unreadable.
	Safety Impact = "cryptographic_safety"
	// Availability: the API server could not read or write what is encrypted.
	Availability Impact = "api_server_availability"
)

// Check is one check of a report.
type Check struct {
	// ID is stable: "transit.profile".
	ID     string `json:"id"`
	Result Result `json:"result"`
	Impact Impact `json:"impact"`
	// Reason is a stable code in lower case, with underscores: present exactly
	// when the check warns or fails.
	Reason string `json:"reason,omitempty"`
	// Message says what was found: one line without a period at its end. It is
	// present unless the check passed and there is nothing to add.
	Message string `json:"message,omitempty"`
	// NextStep says what to do about it, in the imperative: present when the
	// check warns or fails.
	NextStep string `json:"nextStep,omitempty"`
	// SkippedBecause are the ids of the checks that had to pass first.
	SkippedBecause []string `json:"skippedBecause,omitempty"`
}

// Worst is the result of a report with these checks: Fail if one failed, else
// Warn if one warns, else Pass. A skipped check does not count: what it was
// skipped for does, or it was not asked for.
func Worst(checks []Check) Result {
	for _, r := range []Result{Fail, Warn} {
		if slices.ContainsFunc(checks, func(c Check) bool { return c.Result == r }) {
			return r
		}
	}
	return Pass
}
