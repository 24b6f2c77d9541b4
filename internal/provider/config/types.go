package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// flaw is what a scalar's text is refused for.
type flaw struct{ text, fix string }

// scalar is a value with a spelling of its own. set takes the text and the
// YAML tag that the text resolves to ("!!str", "!!int", …).
type scalar interface {
	set(text, tag string) *flaw
}

// Duration is a time.Duration that is written with its unit: "30s", "1h30m".
// It is never negative.
type Duration time.Duration

const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

var durationSyntax = regexp.MustCompile(durationPattern)

func (d *Duration) set(text, tag string) *flaw {
	const fix = `write a number and a unit, for example 30s, 5m or 1h30m`
	switch {
	case tag == "!!int" || tag == "!!float":
		return &flaw{"has no unit", fix}
	case tag != "!!str":
		return &flaw{"is not a duration", fix}
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return &flaw{"has no unit", fix}
	}
	v, err := time.ParseDuration(text)
	if err != nil || !durationSyntax.MatchString(text) {
		return &flaw{"is not a duration", fix}
	}
	*d = Duration(v)
	return nil
}

// String is the shortest spelling with units: 5m, not 5m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the spelling of String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a string with a unit and refuses everything else.
func (d *Duration) UnmarshalJSON(b []byte) error { return unmarshalScalar(b, d) }

// Mode is the permission bits of a socket, written as octal in quotes.
type Mode fs.FileMode

// widestMode is the widest mode of a socket; the owner's bits must be there,
// else the provider's own commands could not reach it.
const (
	widestMode  Mode = 0o660
	modePattern      = `^0?6[0246]0$`
)

var modeSyntax = regexp.MustCompile(`^0?[0-7]{3}$`)

func (m *Mode) set(text, tag string) *flaw {
	const fix = `write "0660", or "0600" to let only the owner in`
	if tag == "!!int" {
		return &flaw{"must be octal digits in quotes", fix}
	}
	if tag != "!!str" || !modeSyntax.MatchString(text) {
		return &flaw{"is not an octal mode of three digits", fix}
	}
	v, err := strconv.ParseUint(text, 8, 32)
	if err != nil {
		return &flaw{"is not an octal mode of three digits", fix}
	}
	mode := Mode(v)
	switch {
	case mode&^widestMode != 0:
		return &flaw{"is wider than 0660", fix}
	case mode&0o600 != 0o600:
		return &flaw{"shuts out the socket's owner", fix}
	}
	*m = mode
	return nil
}

// FileMode is the mode for the operating system.
func (m Mode) FileMode() fs.FileMode { return fs.FileMode(m) }

// String is the mode as four octal digits.
func (m Mode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// MarshalJSON writes the spelling of String.
func (m Mode) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// UnmarshalJSON reads octal digits in quotes and refuses everything else.
func (m *Mode) UnmarshalJSON(b []byte) error { return unmarshalScalar(b, m) }

// Group is a group's name or its decimal ID. It may stand in the file with or
// without quotes.
type Group string

// groupPattern accepts what shadow-utils and directory services create.
const groupPattern = `^([0-9]{1,10}|[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?)$`

// maxGID is the largest group ID; the one above means "no group" to chown.
const maxGID = 1<<32 - 2

var (
	groupSyntax = regexp.MustCompile(groupPattern)
	digits      = regexp.MustCompile(`^[0-9]+$`)
)

func (g *Group) set(text, tag string) *flaw {
	const fix = "write a group name or a decimal group ID"
	switch {
	case text == "" && tag == "!!str":
		return &flaw{"is empty", fix}
	case tag != "!!str" && tag != "!!int", !groupSyntax.MatchString(text):
		return &flaw{"is neither a group name nor a decimal group ID", fix}
	}
	if digits.MatchString(text) {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil || id > maxGID {
			return &flaw{fmt.Sprintf("is above the largest group ID, %d", uint64(maxGID)), fix}
		}
		if strconv.FormatUint(id, 10) != text {
			// A leading zero means octal to one YAML reader and not to another.
			return &flaw{"has a leading zero", "write the group ID in decimal"}
		}
	}
	*g = Group(text)
	return nil
}

// GID resolves the group on this node. A name that the node does not know is
// an *Error about server.socketGroup.
func (g Group) GID() (int, error) {
	if digits.MatchString(string(g)) {
		return strconv.Atoi(string(g))
	}
	found, err := user.LookupGroup(string(g))
	if err != nil {
		return 0, &Error{Problems: []Problem{{Field: "server.socketGroup", Text: "names a group that this node does not have",
			Fix: "create the group, or write another name or a decimal group ID"}}}
	}
	return strconv.Atoi(found.Gid)
}

// UnmarshalJSON reads a string or a decimal number.
func (g *Group) UnmarshalJSON(b []byte) error { return unmarshalScalar(b, g) }

// unmarshalScalar reads a JSON string or number by the rules of the type.
func unmarshalScalar(b []byte, into scalar) error {
	tag, text := "!!int", string(b)
	if len(b) > 0 && b[0] == '"' {
		tag = "!!str"
		if err := json.Unmarshal(b, &text); err != nil {
			return errors.New("is not a string")
		}
	} else if !digits.Match(b) {
		return errors.New("is neither a string nor a whole number")
	}
	if f := into.set(text, tag); f != nil {
		return errors.New(f.text)
	}
	return nil
}
