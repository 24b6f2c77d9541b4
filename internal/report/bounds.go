package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a document. No registry that fits its own bound of size has as many
// snapshots.
const (
	maxSnapshots = 8192
	maxChecks    = 64
	maxReasons   = 64
	maxSentences = 32
	maxCode      = 64   // bytes of a code
	maxText      = 2048 // bytes of a sentence
	maxName      = 1024 // bytes of the provider's name
	maxVersion   = 128  // bytes of the build's version
)

const (
	digits  = "0123456789"
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	hex     = digits + "abcdef"
	base64  = upper + lower + digits + "-_"
	code    = lower + digits + "_"
	checkID = code + "."
	version = upper + lower + digits + "._+:-"
)

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// require is an error made of the rest unless ok.
func require(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// of reports whether v has from least to most bytes, all of them in set.
func of(set, v string, least, most int) bool {
	if len(v) < least || len(v) > most {
		return false
	}
	for i := range len(v) {
		if strings.IndexByte(set, v[i]) < 0 {
			return false
		}
	}
	return true
}

// isText reports whether v is a line of text with from 1 to most bytes.
func isText(v string, most int) bool {
	return v != "" && len(v) <= most && utf8.ValidString(v) && !strings.ContainsFunc(v, unicode.IsControl)
}

func isCode(v string) bool { return of(code, v, 1, maxCode) }

// isKeyIDHash: 32 bytes in base64url, so the last character ends in two zero
// bits.
func isKeyIDHash(v string) bool {
	return of(base64, v, 43, 43) && strings.IndexByte(base64, v[42])%4 == 0
}

func isStateHash(v string) bool {
	digest, ok := strings.CutPrefix(v, "sha256:")
	return ok && of(hex, digest, 64, 64)
}

func isFingerprint(v string) bool {
	digest, ok := strings.CutPrefix(v, "cfg1.")
	return ok && isKeyIDHash(digest)
}

// isTime reports whether t is a moment in its one spelling.
func isTime(t Time) bool {
	_, ok := t.Time()
	return ok
}
