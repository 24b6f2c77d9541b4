package diagnose

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/baokms/baokms/internal/provider/config"
)

// How near something is to what it should be.
type nearness int

const (
	far  nearness = iota // something else
	near                 // meant to be it, and not it
	same                 // spelled otherwise, with the same effect
	equal
)

// dialled is the path that the API server connects to for an endpoint, or why it
// refuses the endpoint.
func dialled(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return "", errors.New("is not a URL")
	case u.Scheme != "unix":
		return "", errors.New("does not begin with unix://")
	}
	return u.Path, nil
}

// endpointDifference says how an endpoint differs from that of a socket's path,
// as the end of a sentence that begins with the endpoint.
func endpointDifference(endpoint, want string) (string, nearness) {
	if path, err := dialled(endpoint); err == nil && path == want {
		return "", equal
	}
	var d differences
	rest := d.trim(endpoint)
	path := d.pathOf(rest, want)
	if path == want {
		return d.words(), near
	}
	if len(path) > 1 && strings.HasSuffix(path, "/") {
		d.add("ends with a slash")
		path = strings.TrimRight(path, "/")
	}
	if clean := filepath.Clean(path); path != "" && clean != path {
		d.add("is not in its simplest form: it has double slashes or dots")
		path = clean
	}
	path = d.varRun(path, want)
	path = d.inner(path, want)
	if sameFile(endpoint, want) {
		if d == nil {
			d.add("names it by another path")
		}
		return d.words(), same
	}
	switch {
	case path == want:
	case strings.EqualFold(path, want):
		d.add("differs from server.socketPath in upper and lower case")
	case config.Distance(path, want) <= mistyped:
		d.add("differs from server.socketPath in " + characters(path, want) + " of the path")
	case filepath.Dir(path) == filepath.Dir(want):
		d.add("names another file in the directory of server.socketPath")
	default:
		return "names another socket than server.socketPath", far
	}
	return d.words(), near
}

// mistyped is up to how many characters count as a mistake of typing.
const mistyped = 2

// sameFile reports whether what the API server would connect to is, on this
// node, the same name in the same directory.
func sameFile(endpoint, want string) bool {
	path, err := dialled(endpoint)
	if err != nil || !filepath.IsAbs(path) || strings.HasSuffix(path, "/") || filepath.Base(path) != filepath.Base(want) {
		return false
	}
	a, errA := filepath.EvalSymlinks(filepath.Dir(path))
	b, errB := filepath.EvalSymlinks(filepath.Dir(want))
	return errA == nil && errB == nil && a == b
}

func abstract(path string) bool { return strings.HasPrefix(path, "/@") || strings.HasPrefix(path, "@") }

// differences are the ways in which one text is not another.
type differences []string

func (d *differences) add(words string) { *d = append(*d, words) }

func (d differences) words() string { return strings.Join(d, " and ") }

func (d *differences) trim(s string) string {
	trimmed := strings.TrimSpace(s)
	if trimmed != s {
		d.add("has white space around it")
	}
	return trimmed
}

// pathOf takes the scheme off, however it is written.
func (d *differences) pathOf(endpoint, want string) string {
	if strings.HasPrefix(endpoint, "/") {
		d.add("is a path alone: unix:// is missing before it")
		return endpoint
	}
	if literal, ok := strings.CutPrefix(endpoint, "unix://"); ok && literal == want {
		if path, err := dialled(endpoint); err != nil || path != want {
			d.add("has characters that mean something else in a URL: write % as %25, ? as %3F and # as %23")
		}
		return literal
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		d.add("is not a URL")
		return ""
	}
	if u.Scheme != "unix" {
		d.add("does not begin with unix://")
	}
	path := u.Path
	switch {
	case u.Opaque != "":
		d.add("has no slash after unix: where there must be three")
		path = "/" + u.Opaque
	case u.Host != "" && u.Scheme == "unix":
		d.add("has two slashes after unix: where there must be three")
		path = "/" + u.Host + u.Path
	}
	if abstract(path) {
		d.add("names an abstract socket, but server.socketPath is a file")
		path = "/" + strings.TrimLeft(path, "/@")
	}
	return path
}

// varRun takes away that /var/run is another name of /run.
func (d *differences) varRun(path, want string) string {
	const long, short = "/var/run/", "/run/"
	switch {
	case strings.HasPrefix(path, long) && strings.HasPrefix(want, short):
		d.add("says var/run where server.socketPath says run")
		return short + strings.TrimPrefix(path, long)
	case strings.HasPrefix(path, short) && strings.HasPrefix(want, long):
		d.add("says run where server.socketPath says var/run")
		return long + strings.TrimPrefix(path, short)
	}
	return path
}

// inner takes away white space that the other text does not have.
func (d *differences) inner(path, want string) string {
	dense := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, path)
	if dense != path && !strings.ContainsFunc(want, unicode.IsSpace) {
		d.add("has white space in it")
		return dense
	}
	return path
}

// nameDifference says how a name differs from the one that it should be, as the
// end of a sentence.
func nameDifference(name, want string) (string, nearness) {
	if name == want {
		return "", equal
	}
	var d differences
	rest := d.inner(d.trim(name), want)
	switch {
	case rest == want:
	case strings.EqualFold(rest, want):
		d.add("differs from providerName in upper and lower case")
	case strings.EqualFold(letters(rest), letters(want)):
		d.add("differs from providerName in hyphens, dots or underscores")
	case config.Distance(rest, want) <= mistyped:
		return "differs from providerName in " + characters(rest, want), far
	default:
		return "is not providerName", far
	}
	return d.words(), near
}

// characters says how many characters differ, and where the first of them is,
// counted from 1.
func characters(got, want string) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	if n := config.Distance(got, want); n > 1 {
		return fmt.Sprintf("%d characters, the first at position %d", n, at+1)
	}
	return fmt.Sprintf("1 character, at position %d", at+1)
}

// letters leaves out what is easily mistaken.
func letters(s string) string { return strings.NewReplacer("-", "", "_", "", ".", "").Replace(s) }
