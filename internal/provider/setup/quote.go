package setup

import (
	"regexp"
	"strings"
)

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shell quotes a text so that a POSIX shell takes it as one word, as it is.
func shell(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// commandWidth is what a command has room for on 80 columns, behind the
// indentation of a report.
const commandWidth = 72

// line is one command: on one line when it has room there, else on two, which a
// shell reads as one.
func line(head, tail string) []string {
	if len(head)+1+len(tail) <= commandWidth {
		return []string{head + " " + tail}
	}
	return []string{head + " \\", "  " + tail}
}
