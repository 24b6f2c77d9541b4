package assess

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/baokms/baokms/internal/report"
)

const (
	maxListed = 8   // names in one list
	maxQuoted = 600 // bytes of a text that a report brought
	// maxMessage is below the 32768 characters of a condition's message.
	maxMessage = 32000
)

// list is names as people write them; of many, the first.
func list(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "none"
	case n == 1:
		return names[0]
	case n > maxListed:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), n-maxListed)
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// versionList is versions as people write them.
func versionList(versions []int32) string {
	if len(versions) == 0 {
		return "nothing"
	}
	var names []string
	for _, v := range versions {
		names = append(names, fmt.Sprint(v))
	}
	if len(names) == 1 {
		return "version " + names[0]
	}
	return "versions " + list(names)
}

// verb is one or the other form, for one or for many.
func verb(many []string, one, more string) string {
	if len(many) == 1 {
		return one
	}
	return more
}

// all is how messages name every node of a plan.
func (f *facts) all() string {
	if len(f.nodes) == 1 {
		return f.nodes[0].name
	}
	return fmt.Sprintf("All %d nodes (%s)", len(f.nodes), list(f.names(func(*node) bool { return true })))
}

// keyName is a key as messages name it: two keys of one version are told apart by
// the beginning of their hash.
func keyName(k report.Key) string {
	return fmt.Sprintf("version %d (key_id hash %.8s…)", k.TransitVersion, k.KeyIDHash)
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// quoted is one line of a text that came with a report.
func quoted(s string) string {
	s = strings.ToValidUTF8(s, "�")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "…"
	}
	return s
}

// few joins sentences of one kind, the first of many.
func few(said []string) string {
	if more := len(said) - maxListed; more > 0 {
		return fmt.Sprintf("%s There are %d more of these.", sentences(said[:maxListed]...), more)
	}
	return sentences(said...)
}

// clipped keeps a message within what the API takes for a condition.
func clipped(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// sentences joins those that say something.
func sentences(s ...string) string {
	var kept []string
	for _, one := range s {
		if one != "" {
			kept = append(kept, one)
		}
	}
	return strings.Join(kept, " ")
}
