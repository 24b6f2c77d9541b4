package canarytest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// A needle is a canary in one encoding.
type needle struct {
	canary, form, text string
	anyCase            bool // text is lower-case, and case does not matter
}

// needlesOf are all encodings of a canary that leave its bytes in one piece.
// Escapes, which leave most of them as they are, are undone in the output instead.
func needlesOf(name, value string) []needle {
	b := []byte(value)
	decimal := strings.Trim(fmt.Sprint(b), "[]")
	needles := []needle{
		{name, "plain text", lower(value), true},
		{name, "hex", hex.EncodeToString(b), true},
		{name, "decimal bytes", decimal, false},
		{name, "decimal bytes", strings.ReplaceAll(decimal, " ", ","), false},
	}
	for shift := range 3 {
		standard := inBase64(base64.RawStdEncoding, b, shift)
		needles = append(needles, needle{name, "base64", standard, false})
		if forURLs := inBase64(base64.RawURLEncoding, b, shift); forURLs != standard {
			needles = append(needles, needle{name, "URL base64", forURLs, false})
		}
	}
	return needles
}

// inBase64 is what base64 makes of value behind shift other bytes: the characters
// that depend on value alone.
func inBase64(encoding *base64.Encoding, value []byte, shift int) string {
	encoded := encoding.EncodeToString(append(make([]byte, shift), value...))
	first := (shift*8 + 5) / 6
	end := (shift + len(value)) * 8 / 6
	return encoded[first:end]
}

func (n needle) in(v view) (Finding, bool) {
	text := v.text
	if n.anyCase {
		text = v.lower
	}
	at := strings.Index(text, n.text)
	if at < 0 {
		return Finding{}, false
	}
	return Finding{Canary: n.canary, Form: n.form + v.dress, Around: surroundings(text, at, len(n.text))}, true
}

// A view is an output after some escapes were undone.
type view struct {
	dress       string // what was undone
	text, lower string
}

func viewsOf(out []byte) []view {
	plain := string(out)
	once := unescape(plain)
	thrice := unescape(unescape(once)) // a document inside a document
	var views []view
	seen := map[string]bool{}
	for _, v := range []view{
		{dress: "", text: plain},
		{dress: ", escaped", text: once},
		{dress: ", escaped repeatedly", text: thrice},
		{dress: ", in a URL's path", text: unpercent(plain, false)},
		{dress: ", in a URL's query", text: unpercent(plain, true)},
		{dress: ", escaped and in a URL's path", text: unpercent(thrice, false)},
		{dress: ", escaped and in a URL's query", text: unpercent(thrice, true)},
		{dress: ", broken into lines", text: withoutSpace(plain)},
		{dress: ", escaped and broken into lines", text: withoutSpace(thrice)},
	} {
		if !seen[v.text] {
			seen[v.text] = true
			v.lower = lower(v.text)
			views = append(views, v)
		}
	}
	return views
}

// unescape undoes the escapes of JSON and of Go's and Prometheus' quoted strings:
// \" \\ \/ \n \r \t \b \f \uXXXX \UXXXXXXXX \xXX. What is none stays.
func unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		c := s[i+1]
		s = s[i+2:]
		switch simple := strings.IndexByte(`"\/nrtbf`, c); {
		case simple >= 0:
			b.WriteByte("\"\\/\n\r\t\b\f"[simple])
		case c == 'x' || c == 'u' || c == 'U':
			s = s[writeCode(&b, c, s):]
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
}

// writeCode writes the character whose code begins s, and says how long that was.
func writeCode(b *strings.Builder, kind byte, s string) int {
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[kind]
	if len(s) >= digits {
		if code, err := strconv.ParseUint(s[:digits], 16, 32); err == nil {
			if kind == 'x' {
				b.WriteByte(byte(code))
			} else {
				b.WriteRune(rune(code))
			}
			return digits
		}
	}
	b.WriteByte('\\')
	b.WriteByte(kind)
	return 0
}

// unpercent undoes %XX, and in a query also the + that stands for a space.
func unpercent(s string, query bool) string {
	if query {
		s = strings.ReplaceAll(s, "+", " ")
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		if i+3 <= len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(code))
				s = s[i+3:]
				continue
			}
		}
		b.WriteByte('%')
		s = s[i+1:]
	}
}

func withoutSpace(s string) string {
	return strings.NewReplacer(" ", "", "\n", "", "\r", "", "\t", "").Replace(s)
}

// lower is s with its ASCII letters in lower case. It leaves other bytes alone: an
// output need not be text.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
