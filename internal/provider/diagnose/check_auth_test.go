package diagnose

import (
	"encoding/base64"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/policy"
	"github.com/baokms/baokms/internal/provider/securefile"
)

func TestJWTEnd(t *testing.T) {
	jwt := func(payload string) []byte {
		return []byte("e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln\n")
	}
	for _, c := range []struct {
		content []byte
		want    int64 // 0 for none
	}{
		{jwt(`{"exp":1772366400}`), 1772366400},
		{jwt(`{"exp":1772366400.7}`), 1772366400},
		{jwt(`{"exp":"soon"}`), 0},
		{jwt(`{}`), 0},
		{jwt(`no JSON`), 0},
		{[]byte("a.b"), 0},
		{[]byte("a.!.c"), 0},
		{nil, 0},
	} {
		end, ok := jwtEnd(c.content)
		if ok != (c.want != 0) || ok && end.Unix() != c.want {
			t.Errorf("%q ends at %v, %v; want %d", c.content, end.Unix(), ok, c.want)
		}
	}
	if _, ok := certificateEnd([]byte("no PEM")); ok {
		t.Error("what is no certificate has an end")
	}
}

func TestCredentialEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		left   time.Duration
		want   command.Result
		text   string
	}{
		{"jwt", config.MethodJWT, 4 * time.Minute, command.Pass, "the JWT is valid until 2026-03-01T12:04:00Z"},
		{"jwt, soon", config.MethodJWT, 4*time.Minute - time.Second, command.Warn, "the JWT ends in 3m59s, at 2026-03-01T12:03:59Z, and is not used once less than auth.jwt.minRemainingTtl (2m) is left"},
		{"cert", config.MethodCert, 24 * time.Hour, command.Pass, "the client certificate is valid until 2026-03-02T12:00:00Z"},
		{"cert, soon", config.MethodCert, 23 * time.Hour, command.Warn, "the client certificate ends in 23h0m, at 2026-03-02T11:00:00Z, which is less than auth.cert.minRemainingTtl (24h)"},
	} {
		e := jwtExam()
		e.config.Auth.Method = c.method
		e.config.Auth.Cert = &config.CertAuth{MinRemainingTTL: config.Duration(24 * time.Hour)}
		if f := e.ending(noon.Add(c.left)); resultOf(f) != c.want || f.message != c.text {
			t.Errorf("%s: %s %q, want %s %q", c.name, resultOf(f), f.message, c.want, c.text)
		}
	}
	if f := jwtExam().ending(time.Time{}); resultOf(f) != command.Pass || f.message != "" {
		t.Errorf("an end that is not known is %+v", f)
	}
}

// TestCredentialPath: auth's own words hold the file's path, for the provider's
// log. A report must not.
func TestCredentialPath(t *testing.T) {
	e := jwtExam()
	err := fault.New(fault.LoginRejected, "read the login JWT", "%s", "JWT file (auth.jwt.jwtFile) /secret/place/jwt: cannot be read: input/output error")
	for _, f := range []finding{e.unusableCredential(err), e.withoutPaths(failure(err))} {
		if strings.Contains(f.message+f.nextStep, "/secret") || !strings.Contains(f.message, "JWT file (auth.jwt.jwtFile): cannot be read") {
			t.Errorf("%+v", f)
		}
	}
}

// TestGranted: a token that lives short, or ends by use.
func TestGranted(t *testing.T) {
	for _, c := range []struct {
		life time.Duration
		uses int
		want want
	}{
		{10 * time.Minute, 0, pass("OpenBao gave a token for 10m;")},
		{10*time.Minute - time.Second, 0, warn("token_short", "a token for 9m59s, which is less than twice auth.loginBeforeTokenExpiry (5m)", "raise token_ttl")},
		{time.Hour, 5, fails("token_uses_limited", "a token for 1h0m; and it ends after 5 requests", "set token_num_uses to 0 on the role")},
		{time.Hour, 1, fails("token_uses_limited", "after 1 request:")},
		{time.Minute, 3, fails("token_uses_limited", "less than twice", "after 3 requests", "set token_num_uses to 0 on the role; and raise token_ttl")},
	} {
		e := jwtExam()
		e.config.Auth.LoginBeforeExpiry = config.Duration(5 * time.Minute)
		c.want.hold(t, authLogin, e.granted(c.life, c.uses))
	}
}

// TestMissingFiles: each field says what belongs there.
func TestMissingFiles(t *testing.T) {
	for field, words := range map[string]string{
		fieldCA: "the PEM of the authority that signed OpenBao's certificate", fieldJWT: "have the issuer write this node's JWT there",
		fieldCert: "this node's client certificate there", fieldKey: "the key of this node's client certificate there",
	} {
		path := filepath.Join(t.TempDir(), "gone")
		_, err := securefile.Read(path, securefile.Rule{What: field, Forbid: securefile.Private, MaxSize: 1})
		f := unusableFile(reasonCredential, field, path, fileError(err))
		fails(reasonCredential, words).hold(t, field, f)
		if want := "the file in " + field + " does not exist"; f.message != want {
			t.Errorf("%q, want %q", f.message, want)
		}
	}
}

func policyConfig() *config.Config {
	e := jwtExam()
	e.config.Transit.MountPath, e.config.Transit.KeyName = "team/transit", "the-key"
	e.config.Auth.JWT.MountPath, e.config.Auth.JWT.Role = "auth/jwt", "kms"
	return e.config
}

// TestRightsAreThePrintedPolicy holds what is asked for against what operators are
// told to give.
func TestRightsAreThePrintedPolicy(t *testing.T) {
	text := policy.OpenBao("team/transit", "the-key")
	var printed []right
	for _, hit := range regexp.MustCompile(`path "([^"]+)" \{\s+capabilities = \["([^"]+)"\]`).FindAllStringSubmatch(text, -1) {
		printed = append(printed, right{path: hit[1], capability: hit[2]})
	}
	asked := rights(policyConfig().Transit)
	for i := range asked {
		asked[i].purpose = ""
	}
	if !slices.Equal(printed, asked) {
		t.Errorf("asked for %v, printed %v", asked, printed)
	}
}

// TestSurplus: the capabilities that the printed policy gives are no surplus, and
// each surplus is told once and without a path.
func TestSurplus(t *testing.T) {
	c := policyConfig()
	needed, more := rights(c.Transit), surpluses(c)
	may := map[string][]string{}
	for _, s := range more {
		may[s.path] = []string{"deny"}
	}
	for _, r := range needed {
		may[r.path] = []string{r.capability}
	}
	if told := tooMuch(may, needed, more); len(told) != 0 {
		t.Errorf("the least privilege is too much: %v", told)
	}
	if missing := lacking(may, needed); len(missing) != 0 {
		t.Errorf("the least privilege is too little: %v", missing)
	}
	for _, s := range more {
		before := may[s.path]
		for _, capability := range s.capabilities {
			may[s.path] = append(slices.Clone(before), capability)
			if told := tooMuch(may, needed, more); !slices.Equal(told, []string{s.allows}) && !slices.Contains(before, capability) {
				t.Errorf("%s on %s is told as %v, want %s", capability, s.path, told, s.allows)
			}
		}
		may[s.path] = before
		if strings.ContainsAny(s.allows, "/\"") || strings.Contains(s.allows, "the-key") {
			t.Errorf("%q holds a path", s.allows)
		}
	}
	may[needed[3].path] = []string{"list", "update"}
	if told := tooMuch(may, needed, more); !slices.Equal(told, []string{"do more than to decrypt with the key in the same place"}) {
		t.Errorf("list on decrypt is told as %v", told)
	}
}

func TestSurplusOfCertificateLogin(t *testing.T) {
	for name, want := range map[string]string{"node": "auth/cert/certs/node", "": "auth/cert/certs/kms" + stranger} {
		a := config.Auth{Method: config.MethodCert, Cert: &config.CertAuth{MountPath: "auth/cert", Name: name}}
		if got := loginSurpluses(a)[0].path; got != want {
			t.Errorf("the role %q is looked for at %s, want %s", name, got, want)
		}
	}
}

func TestPolicyFinding(t *testing.T) {
	many := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, c := range []struct {
		missing, surplus []string
		want             command.Result
		message, next    string
	}{
		{nil, nil, command.Pass, "", ""},
		{nil, []string{"rotate the key"}, command.Warn, "the policy also lets the provider rotate the key", usePolicy + " and take others away"},
		{nil, many, command.Warn, "the policy also lets the provider a, b, c, d, e, f and 2 things more", usePolicy + " and take others away"},
		{[]string{toEncrypt}, nil, command.Fail, "the policy does not let the provider encrypt with the key", usePolicy},
		{[]string{toEncrypt, toDecrypt}, []string{"rotate the key", "delete the key"}, command.Fail,
			"the policy does not let the provider encrypt with the key and decrypt with the key; but it lets it rotate the key and delete the key", usePolicy},
		{[]string{toReadMetadata, toEncrypt, toDecrypt}, nil, command.Fail, "the policy does not let the provider read the key's metadata, encrypt with the key and decrypt with the key",
			"the policy that the role names in token_policies is missing or differs: read the role in OpenBao, then write that policy, in openbao.namespace, " +
				"with what `bao-kms-provider policy openbao` prints for transit.mountPath and transit.keyName as they are now"},
	} {
		f := policyFinding(c.missing, c.surplus)
		if resultOf(f) != c.want || f.message != c.message || f.nextStep != c.next {
			t.Errorf("without %v, with %v: %s %q; %q", c.missing, c.surplus, resultOf(f), f.message, f.nextStep)
		}
	}
}
