package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/baokms/baokms/internal/provider/identity"
)

// rule is the check of one kind of text.
type rule struct {
	// pattern is the schema's part of the rule: everything that check accepts
	// matches it, and what it cannot say is left to check.
	pattern string
	// maxLength bounds the bytes when it is positive.
	maxLength int
	// check says what is wrong with a text that is not empty, or "".
	check func(string) string
	fix   string
}

// socketPathMax is what a Unix socket's address can hold on Linux.
const socketPathMax = 107

// Pieces of patterns, in the dialect that Go and JSON Schema share.
const (
	identityPattern = `[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?`
	pathPattern     = `/[^\x00-\x1f\x7f]+`
	mountPattern    = `[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*`
)

// rules are the kinds of text that a rule tag can name.
var rules = map[string]*rule{
	"identity": {pattern: identityPattern, check: identityValue,
		fix: "write a name without control characters and without spaces at its ends"},
	"text": {pattern: identityPattern, check: identityValue,
		fix: "write it without control characters and without spaces at its ends"},
	"namespace": {pattern: identityPattern, check: namespace,
		fix: "write it relative, like team or team/project, or leave it empty"},
	"path": {pattern: pathPattern, check: absolutePath,
		fix: "write an absolute path in its simplest form"},
	"socket": {pattern: pathPattern, maxLength: socketPathMax, check: socketPath,
		fix: "write an absolute path of at most 107 bytes, in its simplest form"},
	"listen": {pattern: `[^\s]*:[0-9]{1,5}`, check: listenAddress,
		fix: "write host:port, for example 127.0.0.1:8081"},
	"url": {pattern: `[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#@]+`, check: openBaoURL,
		fix: "write https://host:port and nothing after it"},
	"servername": {pattern: `[A-Za-z0-9:][A-Za-z0-9.:_-]*`, maxLength: 253, check: serverName,
		fix: "write the DNS name or IP address that is in OpenBao's certificate, without a port"},
	"transitmount": {pattern: mountPattern, check: transitMount,
		fix: "write the mount path of the Transit engine, for example transit"},
	"authmount": {pattern: "auth/" + mountPattern, check: authMount,
		fix: "write the mount path of the auth method with its leading auth/, for example auth/jwt"},
	"keyname": {pattern: `[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?`, maxLength: 255, check: keyName,
		fix: "write the key's name as Transit knows it: letters, digits, _, and - or . inside"},
	"incident": {pattern: `[A-Za-z0-9][A-Za-z0-9._:-]*`, maxLength: 64, check: incidentID,
		fix: "write the incident's number or name: at most 64 letters, digits and . _ : -"},
}

// identityValue is the rule of every field of a key_id, and of text that is
// sent to OpenBao as it is (design: identity, key_id).
func identityValue(v string) string {
	if err := identity.CheckValue(v); err != nil {
		return err.Error()
	}
	return ""
}

func namespace(v string) string {
	if problem := identityValue(v); problem != "" {
		return problem
	}
	return segments(v)
}

// segments checks the shape of a slash-separated OpenBao path.
func segments(v string) string {
	switch {
	case strings.HasPrefix(v, "/"):
		return "begins with a slash"
	case strings.HasSuffix(v, "/"):
		return "ends with a slash"
	}
	for s := range strings.SplitSeq(v, "/") {
		switch s {
		case "":
			return "has an empty segment"
		case ".", "..":
			return "has a dot segment"
		}
	}
	return ""
}

// mountCharacters need no escaping in a URL and mean nothing special in a
// policy, where + and a trailing * would widen what is allowed.
var mountCharacters = regexp.MustCompile(`^[A-Za-z0-9._~/-]+$`)

func mount(v string) string {
	if problem := segments(v); problem != "" {
		return problem
	}
	if !mountCharacters.MatchString(v) {
		return "has a character other than letters, digits, . _ ~ - and /"
	}
	return ""
}

func authMount(v string) string {
	if problem := mount(v); problem != "" {
		return problem
	}
	if !strings.HasPrefix(v, "auth/") {
		return "does not begin with auth/"
	}
	return ""
}

// reservedMounts are paths where OpenBao mounts something of its own.
var reservedMounts = map[string]bool{"auth": true, "sys": true, "identity": true, "cubbyhole": true}

func transitMount(v string) string {
	if problem := mount(v); problem != "" {
		return problem
	}
	if first, _, _ := strings.Cut(v, "/"); reservedMounts[first] {
		return "begins with a path that OpenBao keeps for itself, so no Transit engine can be there"
	}
	return ""
}

var keyNameSyntax = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

func keyName(v string) string {
	if len(v) > 255 {
		return "is longer than 255 bytes"
	}
	if !keyNameSyntax.MatchString(v) {
		return "is not a name that Transit accepts"
	}
	return ""
}

var incidentSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

func incidentID(v string) string {
	if len(v) > 64 {
		return "is longer than 64 bytes"
	}
	if !incidentSyntax.MatchString(v) {
		return "has a character other than letters, digits, . _ : and -"
	}
	return ""
}

func absolutePath(v string) string {
	switch {
	case identity.CheckValue(v) != nil:
		return identityValue(v)
	case !filepath.IsAbs(v):
		return "is not an absolute path"
	case filepath.Clean(v) != v:
		return "is not in its simplest form: remove double slashes, dots and a slash at the end"
	case v == "/":
		return "is a directory, not a file"
	}
	return ""
}

func socketPath(v string) string {
	switch {
	case strings.HasPrefix(v, "@"):
		return "is an abstract socket, which every user of the node could reach"
	case len(v) > socketPathMax:
		return "is longer than 107 bytes, more than a Unix socket's address holds"
	}
	return absolutePath(v)
}

func listenAddress(v string) string {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return "is not host:port"
	}
	if _, ok := portNumber(port); !ok {
		return "has no port between 0 and 65535"
	}
	if host != "" && !isHost(host) {
		return "has a host that is neither an IP address nor a host name"
	}
	return ""
}

// portNumber reads a port in plain decimal.
func portNumber(v string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(v, 10, 16)
	return n, err == nil && strconv.FormatUint(n, 10) == v
}

var hostSyntax = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// isHost accepts an IP address, without brackets, or a host name.
func isHost(v string) bool {
	if _, err := netip.ParseAddr(v); err == nil {
		return true
	}
	return len(v) <= 253 && hostSyntax.MatchString(v) && !strings.Contains(v, "..")
}

func serverName(v string) string {
	if !isHost(v) || strings.Contains(v, "%") {
		return "is neither a host name nor an IP address"
	}
	return ""
}

func openBaoURL(v string) string {
	u, err := url.Parse(v)
	switch {
	case err != nil:
		return "is not a URL"
	case u.Scheme != "https" && u.Scheme != "http":
		return "does not begin with https://"
	case u.Opaque != "":
		return "is not a URL"
	case u.User != nil:
		return "holds a user name or password, which must never be in a configuration"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(v, "#"):
		return "holds a query or a fragment"
	case u.Path != "":
		return "holds a path"
	case !isHost(u.Hostname()):
		return "has no host, or one that is neither a host name nor an IP address"
	}
	if port, given := portOf(u.Host); given {
		if n, ok := portNumber(port); !ok || n == 0 {
			return "has no port between 1 and 65535"
		}
	}
	return ""
}

// portOf is what follows the host of a URL, if there is a colon for it.
func portOf(host string) (port string, given bool) {
	_, port, given = strings.Cut(host[strings.LastIndexByte(host, ']')+1:], ":")
	return port, given
}

// isPlainHTTP tells whether an accepted openbao.address is not encrypted, and
// whether it is an IP address of this node's loopback interface. A name is not
// enough: it can be made to lead anywhere.
func isPlainHTTP(address string) (plain, loopback bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false, false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return true, err == nil && ip.IsLoopback()
}
