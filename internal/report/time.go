package report

import "time"

// layout is RFC 3339 in UTC and whole seconds: every moment has one spelling.
const layout = "2006-01-02T15:04:05Z"

// Time is a moment as RFC 3339 in UTC, whole seconds, such as
// 2026-11-30T06:15:00Z. "" is no moment at all and is left out of documents.
type Time string

// At is t without its fraction of a second; "" for the zero time.
func At(t time.Time) Time {
	if t.IsZero() {
		return ""
	}
	return Time(t.UTC().Format(layout))
}

// Time is the moment, and whether there is one.
func (t Time) Time() (time.Time, bool) {
	parsed, err := time.Parse(layout, string(t))
	return parsed, err == nil && At(parsed) == t
}
