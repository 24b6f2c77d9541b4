package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fieldCase is the table of one field.
type fieldCase struct {
	field    string
	standard string            // the value without the field; "!" when it is required
	accepted map[string]string // raw YAML → value
	refused  map[string]string // raw YAML → part of the problem's text
}

// Raw values shared by several fields.
var (
	identityRefused = map[string]string{
		`""`: "is empty", `" a"`: "white space", `"a "`: "white space", `"a\u00a0"`: "white space", `"a\tb"`: "control character",
		`"a\0b"`: "control character", `"a\u007fb"`: "control character", `"a\u0085b"`: "control character",
		`12`: "is not text", `1.5`: "is not text", `true`: "is not text", `yes`: "is not text", `No`: "is not text",
		`2026-11-30`: "is not text", `[a]`: "is a list", `{a: b}`: "is a group of fields", ``: "has no value", `~`: "has no value",
	}
	identityAccepted = map[string]string{`a`: "a", `"12"`: "12", `"yes"`: "yes", `a b`: "a b", `"ä/ü"`: "ä/ü"}
	pathAccepted     = map[string]string{`/a`: "/a", `/a b/c.d`: "/a b/c.d"}
	pathRefused      = map[string]string{
		`""`: "is empty", `a`: "not an absolute path", `./a`: "not an absolute path", `/a/`: "simplest form", `/a//b`: "simplest form",
		`/a/../b`: "simplest form", `/`: "is a directory", `"/a\nb"`: "control character", `7`: "is not text", `"/a\0"`: "control character",
	}
	mountRefused = map[string]string{
		`""`: "is empty", `/auth/a`: "begins with a slash", `auth/a/`: "ends with a slash", `auth//a`: "empty segment",
		`auth/./a`: "dot segment", `auth/../a`: "dot segment", `"auth/a b"`: "character other than", `auth/+`: "character other than",
		`"auth/a*"`: "character other than", `auth/a?b`: "character other than", `auth/%2e%2e`: "character other than",
	}
	timeRefused = map[string]string{
		`30`: "has no unit", `0`: "has no unit", `1.5`: "has no unit", `"30"`: "has no unit", `"0"`: "has no unit", `1e3`: "has no unit",
		`-5s`: "is not a duration", `+5s`: "is not a duration", `5 s`: "is not a duration", `5d`: "is not a duration", `s`: "is not a duration",
		`""`: "is not a duration", `true`: "is not a duration", ``: "has no value", `[5s]`: "is a list", `9999999999h`: "is not a duration",
	}
)

func plus(m map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for k, v := range m {
		all[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func number(field, standard string) fieldCase {
	return fieldCase{field, standard,
		map[string]string{`1`: "1", `2`: "2", `1023`: "1023", `1024`: "1024"},
		map[string]string{`0`: "below 1", `-1`: "below 1", `1025`: "above 1024", `99999999999999999999`: "not a whole number",
			`1.0`: "not a whole number", `"16"`: "not a whole number", `016`: "not a whole number", `0x10`: "not a whole number",
			`1_0`: "not a whole number", `many`: "not a whole number", `true`: "not a whole number", ``: "has no value"}}
}

func boolean(field, standard string) fieldCase {
	return fieldCase{field, standard, map[string]string{`true`: "true", `false`: "false"},
		map[string]string{`"true"`: "neither true nor false", `yes`: "neither true nor false", `True`: "neither true nor false",
			`1`: "neither true nor false", `on`: "neither true nor false", ``: "has no value"}}
}

func duration(field, standard string, accepted map[string]string, more ...string) fieldCase {
	return fieldCase{field, standard, accepted, plus(timeRefused, more...)}
}

func required(field string, accepted, refused map[string]string) fieldCase {
	return fieldCase{field, "!", accepted, refused}
}

var fieldCases = []fieldCase{
	required("configVersion", map[string]string{`v1alpha1`: "v1alpha1", `"v1alpha1"`: "v1alpha1"},
		map[string]string{`v1`: "must be v1alpha1", `""`: "must be v1alpha1", `1`: "is not text"}),

	{"server.socketPath", "/run/openbao-kms/kms.sock", plus(pathAccepted, "/"+strings.Repeat("s", 106), "/"+strings.Repeat("s", 106)),
		plus(pathRefused, "/"+strings.Repeat("s", 107), "longer than 107 bytes", "/"+strings.Repeat("ä", 54), "longer than 107 bytes", `"@kms"`, "abstract socket")},
	{"server.socketMode", "0660", map[string]string{`"0660"`: "0660", `"660"`: "0660", `"0600"`: "0600", `"0640"`: "0640", `"0620"`: "0620"},
		map[string]string{`"0661"`: "wider than 0660", `"0670"`: "wider than 0660", `"0760"`: "wider than 0660", `"0666"`: "wider than 0660",
			`"0777"`: "wider than 0660", `"0060"`: "shuts out", `"0000"`: "shuts out", `"0460"`: "shuts out", `0660`: "octal digits in quotes", `432`: "octal digits in quotes",
			`"0680"`: "not an octal mode", `"2660"`: "not an octal mode", `"00660"`: "not an octal mode", `"0o660"`: "not an octal mode", `rw`: "not an octal mode", `""`: "not an octal mode", ``: "has no value"}},
	required("server.socketGroup", map[string]string{`kube-apiserver`: "kube-apiserver", `"1000"`: "1000", `1000`: "1000", `0`: "0", `4294967294`: "4294967294", `_a.b-c_9`: "_a.b-c_9", `A$`: "A$"},
		map[string]string{`""`: "is empty", `-1`: "neither a group name", `4294967295`: "above the largest group ID", `9999999999`: "above the largest group ID", `"007"`: "leading zero", `007`: "leading zero",
			`a b`: "neither a group name", `"a:b"`: "neither a group name", `a,b`: "neither a group name", `1.5`: "neither a group name", `true`: "neither a group name", `[a]`: "is a list", ``: "has no value"}),
	listen("server.metricsAddress", "127.0.0.1:8081"),
	listen("server.healthAddress", "127.0.0.1:8082"),
	{"server.reportSocketPath", "", plus(pathAccepted, `""`, "", `/run/report/r.sock`, "/run/report/r.sock"),
		map[string]string{`a`: "not an absolute path", "/" + strings.Repeat("s", 107): "longer than 107 bytes", `"@r"`: "abstract socket", `/a/`: "simplest form"}},
	number("server.maxConcurrentStatus", "16"),
	number("server.maxConcurrentEncrypt", "32"),
	number("server.maxConcurrentDecrypt", "64"),

	required("openbao.address", map[string]string{
		`https://bao:8200`: "https://bao:8200", `https://bao`: "https://bao", `https://10.0.0.1:1`: "https://10.0.0.1:1",
		`"https://[::1]:65535"`: "https://[::1]:65535", `"https://[::1]"`: "https://[::1]", `HTTPS://bao`: "HTTPS://bao"},
		map[string]string{`""`: "is empty", `bao:8200`: "does not begin with https://", `bao`: "does not begin with https://", `ftp://bao`: "does not begin with https://",
			`https://u@bao`: "user name or password", `https://u:p@bao`: "user name or password", `https://bao/`: "holds a path", `https://bao/v1`: "holds a path",
			`https://bao?a=b`: "query or a fragment", `https://bao?`: "query or a fragment", `"https://bao#a"`: "query or a fragment", `"https://bao#"`: "query or a fragment",
			`https://`: "has no host", `https://:8200`: "has no host", `"https://bao:"`: "no port between", `https://bao:0`: "no port between", `https://bao:65536`: "no port between",
			`https://bao:x`: "is not a URL", `"https://a b"`: "is not a URL", `"https://a..b"`: "has no host", `"https:bao"`: "is not a URL", `8200`: "is not text"}),
	required("openbao.caCertFile", pathAccepted, pathRefused),
	required("openbao.tlsServerName", map[string]string{`bao`: "bao", `bao.example.org`: "bao.example.org", `10.0.0.1`: "10.0.0.1", `"::1"`: "::1"},
		map[string]string{`""`: "is empty", `"bao:8200"`: "neither a host name", `https://bao`: "neither a host name", `"*.example.org"`: "neither a host name", `a..b`: "neither a host name", `"fe80::1%e"`: "neither a host name", `1`: "is not text"}),
	required("openbao.instanceId", identityAccepted, identityRefused),
	{"openbao.namespace", "", map[string]string{`""`: "", `team`: "team", `team/project`: "team/project"},
		map[string]string{`/team`: "begins with a slash", `team/`: "ends with a slash", `a//b`: "empty segment", `a/../b`: "dot segment", `.`: "dot segment", `" a"`: "white space", `"a\tb"`: "control character", ``: "has no value"}},
	duration("openbao.timeout", "2s", map[string]string{`1ms`: "1ms", `1.5s`: "1.5s", `"1m"`: "1m"}, `999us`, "below 1ms", `0s`, "below 1ms", `24h1s`, "above 24h"),

	{"auth.method", "jwt", map[string]string{`jwt`: "jwt"}, map[string]string{`token`: "is none of jwt, cert", `JWT`: "is none of jwt, cert", `""`: "is none of jwt, cert", `1`: "is not text"}},
	duration("auth.loginBeforeTokenExpiry", "5m", map[string]string{`1ms`: "1ms", `59m59s`: "59m59s"}, `0s`, "below 1ms", `8760h1s`, "above 8760h"),
	duration("auth.tokenRenewalIncrement", "1h", map[string]string{`5m1ms`: "5m0.001s", `8760h`: "8760h"}, `0s`, "below 1ms", `8760h1s`, "above 8760h"),
	duration("auth.loginTimeout", "0s", map[string]string{`0s`: "0s", `1ms`: "1ms", `24h`: "24h"}, `24h1ms`, "above 24h"),
	required("auth.jwt.mountPath", map[string]string{`auth/jwt`: "auth/jwt", `auth/a-b/c_d.e~1`: "auth/a-b/c_d.e~1"}, plus(mountRefused, `jwt`, "does not begin with auth/", `auth`, "does not begin with auth/", `authx/a`, "does not begin with auth/")),
	required("auth.jwt.role", identityAccepted, identityRefused),
	required("auth.jwt.jwtFile", pathAccepted, pathRefused),
	duration("auth.jwt.minRemainingTtl", "2m", map[string]string{`0s`: "0s", `8760h`: "8760h"}, `8760h1s`, "above 8760h"),
	duration("auth.jwt.clockSkewLeeway", "30s", map[string]string{`0s`: "0s", `24h`: "24h"}, `24h1s`, "above 24h"),
	optionalText("auth.jwt.expectedIssuer"),
	optionalText("auth.jwt.expectedAudience"),
	optionalText("auth.jwt.expectedSubject"),
	required("auth.cert.mountPath", map[string]string{`auth/cert`: "auth/cert"}, plus(mountRefused, `cert`, "does not begin with auth/")),
	optionalText("auth.cert.name"),
	required("auth.cert.certificateFile", pathAccepted, pathRefused),
	required("auth.cert.keyFile", pathAccepted, pathRefused),
	duration("auth.cert.minRemainingTtl", "24h", map[string]string{`0s`: "0s", `8760h`: "8760h"}, `8760h1s`, "above 8760h"),

	required("transit.mountPath", map[string]string{`transit`: "transit", `team/transit`: "team/transit", `authority`: "authority"},
		map[string]string{`""`: "is empty", `/t`: "begins with a slash", `t/`: "ends with a slash", `a//b`: "empty segment", `a/../b`: "dot segment", `..`: "dot segment", `a/+`: "character other than", `"a*"`: "character other than",
			`auth/t`: "keeps for itself", `sys`: "keeps for itself", `identity/a`: "keeps for itself", `cubbyhole`: "keeps for itself"}),
	required("transit.keyName", map[string]string{`k`: "k", `_a-b.c_9`: "_a-b.c_9", strings.Repeat("k", 255): strings.Repeat("k", 255)},
		map[string]string{`""`: "is empty", `a/b`: "not a name", `-a`: "not a name", `a-`: "not a name", `.a`: "not a name", `..`: "not a name", `"a b"`: "not a name", `ä`: "not a name", `"a*"`: "not a name", strings.Repeat("k", 256): "longer than 255 bytes", `1`: "is not text"}),
	required("transit.keyIdScope.providerName", identityAccepted, identityRefused),
	required("transit.keyIdScope.clusterId", identityAccepted, identityRefused),
	required("transit.keyIdScope.transitMountId", identityAccepted, identityRefused),
	required("transit.keyIdScope.keyLineageId", identityAccepted, identityRefused),

	{"state.path", "/var/lib/openbao-kms/state/key-registry.json", pathAccepted, pathRefused},
	duration("bootstrap.graceTimeout", "1m", map[string]string{`1ms`: "1ms", `24h`: "24h"}, `0s`, "below 1ms", `24h1ms`, "above 24h"),
	duration("bootstrap.retryInterval", "5s", map[string]string{`1ms`: "1ms", `24h`: "24h"}, `0s`, "below 1ms", `24h1ms`, "above 24h"),
	duration("status.probeInterval", "30s", map[string]string{`1ms`: "1ms", `1m59s999ms`: "1m59.999s"}, `0s`, "below 1ms", `24h1ms`, "above 24h"),
	duration("status.deepProbeInterval", "5m", map[string]string{`1ms`: "1ms", `24h`: "24h"}, `0s`, "below 1ms", `24h1ms`, "above 24h"),
	duration("status.statusMaxStaleness", "2m", map[string]string{`31s`: "31s", `24h`: "24h"}, `0s`, "below 1ms", `24h1ms`, "above 24h"),
	{"rotation.mode", "observed", map[string]string{`observed`: "observed"}, map[string]string{`automatic`: "must be observed", `""`: "must be observed", `true`: "is not text"}},
	duration("rotation.activationDelay", "2m", map[string]string{`1ms`: "1ms", `8760h`: "8760h"}, `0s`, "below 1ms", `8760h1ms`, "above 8760h"),
	number("rotation.requireStableObservationCount", "3"),
	boolean("rotation.rejectVersionRollback", "true"),
	{"logging.level", "info", map[string]string{`debug`: "debug", `info`: "info", `warn`: "warn", `error`: "error"},
		map[string]string{`trace`: "is none of debug, info, warn, error", `INFO`: "is none of", `""`: "is none of", `1`: "is not text"}},
	{"logging.format", "json", map[string]string{`json`: "json", `text`: "text"}, map[string]string{`xml`: "is none of json, text", `1`: "is not text"}},
	boolean("logging.logOpenBaoRequestIDs", "true"),
	{"logging.debugCorrelation.enabled", "false", map[string]string{`false`: "false"}, map[string]string{`yes`: "neither true nor false", `"true"`: "neither true nor false"}},
	duration("logging.debugCorrelation.ttl", "15m", map[string]string{`1ms`: "1ms", `1h`: "1h", `60m`: "1h"}, `0s`, "below 1ms", `1h1ms`, "above 1h"),
	{"logging.debugCorrelation.incidentId", "", map[string]string{`""`: "", `INC-1.2_3:4`: "INC-1.2_3:4", strings.Repeat("i", 64): strings.Repeat("i", 64)},
		map[string]string{strings.Repeat("i", 65): "longer than 64 bytes", `"a b"`: "character other than", `-a`: "character other than", `12`: "is not text"}},
}

func listen(field, standard string) fieldCase {
	return fieldCase{field, standard,
		map[string]string{`""`: "", `":1"`: ":1", `localhost:65535`: "localhost:65535", `"[::1]:9"`: "[::1]:9", `0.0.0.0:9090`: "0.0.0.0:9090", `127.0.0.1:0`: "127.0.0.1:0"},
		map[string]string{`9090`: "is not text", `"9090"`: "is not host:port", `127.0.0.1`: "is not host:port", `127.0.0.1:65536`: "no port between", `"a:-1"`: "no port between", `"a:http"`: "no port between",
			`"a:"`: "no port between", `"a:09"`: "no port between", `"::1:80"`: "is not host:port", `"a b:80"`: "has a host that", `/run/x.sock`: "is not host:port", `http://a:80`: "is not host:port", ``: "has no value"}}
}

func optionalText(field string) fieldCase {
	refused := plus(identityRefused)
	delete(refused, `""`)
	return fieldCase{field, "", plus(identityAccepted, `""`, ""), refused}
}

// editsFor prepares a document in which the field may stand.
func editsFor(field string) []string {
	if strings.HasPrefix(field, "auth.cert.") {
		return cert
	}
	return nil
}

func TestFields(t *testing.T) {
	for _, c := range fieldCases {
		t.Run(c.field, func(t *testing.T) {
			base := editsFor(c.field)
			without := document(append(slices.Clone(base), c.field)...)
			if c.standard == "!" {
				if p := one(t, without); p.Field != c.field || p.Text != "is missing" {
					t.Errorf("without it: %v", p)
				}
			} else if got := valueAt(t, parsed(t, without), c.field); got != c.standard {
				t.Errorf("default is %q, want %q", got, c.standard)
			}
			for raw, want := range c.accepted {
				doc := document(append(slices.Clone(base), c.field+"="+raw)...)
				if got := valueAt(t, parsed(t, doc), c.field); got != want {
					t.Errorf("%s gives %q, want %q", raw, got, want)
				}
			}
			for raw, want := range c.refused {
				p := one(t, document(append(slices.Clone(base), c.field+"="+raw)...))
				if p.Field != c.field || !strings.Contains(p.Text, want) || p.Line == 0 {
					t.Errorf("%s: got %v, want %q about %s with its line", raw, p, want, c.field)
				}
			}
		})
	}
}

func TestEveryFieldHasItsTable(t *testing.T) {
	var have []string
	for _, c := range fieldCases {
		have = append(have, c.field)
		if len(c.accepted) == 0 || len(c.refused) == 0 {
			t.Errorf("%s has no accepted or no refused value", c.field)
		}
	}
	want := leavesOf(reflect.TypeFor[Config](), "")
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("tables for %v\nfields are %v", have, want)
	}
}
