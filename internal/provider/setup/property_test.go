package setup

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/internal/provider/config"
)

// nasty are texts that YAML, a shell or a reader of either takes for something
// else.
var nasty = []string{
	"", "no", "yes", "null", "~", "true", "1", "007", "0x1f", "1e3", ".5", "1_000", "0o17", "12:30", "2001-01-01", "=", "<<", "-", "--", "?", ":", ": a", "a: b", "a #b", "#", "&a", "*a", "!a", "!!str a",
	"|", ">", "%", "@", "`", `"`, `'`, `\`, `\n`, `a"b`, "a'b", `a\b`, "{}", "[]", "[a]", "{a: b}", ",", "a, b", "---", "...", "{{.}}", "$(id)", "`id`", "$HOME", "a;b", "ä", "日本", "😀", "\u2028", "\u2029",
	"\ufeff", "\ufffd", "\ufffe", "\uffff", "\U0001ffff", "\u200b", "\u00ad", "\u00a0", "a\u00a0b", "a\tb", "a\nb", "a\x00", "a\x7fb", "a\u0085b", "\xff", "a ", " a",
}

func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(nasty),
		rapid.String(),
		rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,12}[a-z0-9]`),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom(nasty), 2, 4), func(parts []string) string { return strings.Join(parts, "x") }),
	)
}

// flagTexts gives up to three flags other values: with more, hardly anything
// would come through.
func flagTexts(t *rapid.T, o *Options) {
	all := texts(o)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		if f := rapid.SampledFrom(all).Draw(t, "flag"); f.Choices == nil {
			*f.Value.(*string) = text().Draw(t, f.Name)
		}
	}
	if rapid.Bool().Draw(t, "other resources") {
		o.Resources = rapid.SliceOfN(rapid.SampledFrom([]string{"secrets", "configmaps", "*.", "*.*", "no.example.net", "*.null", "events", "007"}), 1, 3).Draw(t, "resources")
	}
}

// TestWhatIsWrittenIsWhatWasSaid: for any values, Init refuses them or makes
// files that every reader reads back to them.
func TestWhatIsWrittenIsWhatWasSaid(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom([]Options{example(), withCertificate(example()), asStaticPod(example()), everything(example()), everything(asStaticPod(withCertificate(example())))}).Draw(t, "base")
		flagTexts(t, &o)
		o.Dir = "made"
		full, _, list, err := prepare(o)
		var refusal *FlagError
		if errors.As(err, &refusal) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		accepted++
		readBack(t, full, list)
	})
	if accepted < 10 {
		t.Errorf("only %d were accepted", accepted)
	}
}

// TestNastyIdentities: each nasty text in each identity field, alone.
func TestNastyIdentities(t *testing.T) {
	accepted := 0
	for _, v := range nasty {
		for _, field := range []func(*Options) *string{
			func(o *Options) *string { return &o.InstanceID }, func(o *Options) *string { return &o.Namespace },
			func(o *Options) *string { return &o.ProviderName }, func(o *Options) *string { return &o.KeyLineage },
			func(o *Options) *string { return &o.JWTSubject },
		} {
			o := example()
			o.AuthRole, o.PolicyName = "role", "policy"
			*field(&o) = v
			o.Dir = "made"
			full, _, list, err := prepare(o)
			var refusal *FlagError
			if err != nil && !errors.As(err, &refusal) {
				t.Errorf("%q: %v", v, err)
			}
			if err == nil {
				accepted++
				readBack(t, full, list)
			}
		}
	}
	if accepted < 100 {
		t.Errorf("only %d were accepted", accepted)
	}
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// readBack holds the files against o, by the readers that will read them.
func readBack(t failer, o Options, list []file) {
	t.Helper()
	load := func(name string) []byte {
		for _, f := range list {
			if f.name == name {
				return f.content
			}
		}
		t.Fatalf("%s was not made", name)
		return nil
	}
	c, err := config.Parse(load(configFile), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	got := map[string]string{
		"address": c.OpenBao.Address, "server name": c.OpenBao.TLSServerName, "ca": c.OpenBao.CACertFile,
		"instance": c.OpenBao.InstanceID, "namespace": c.OpenBao.Namespace, "mount": c.Transit.MountPath, "key": c.Transit.KeyName,
		"provider": c.Transit.KeyIDScope.ProviderName, "cluster": c.Transit.KeyIDScope.ClusterID,
		"mount id": c.Transit.KeyIDScope.TransitMountID, "lineage": c.Transit.KeyIDScope.KeyLineageID,
		"group": string(c.Server.SocketGroup), "metrics": c.Server.MetricsAddress, "health": c.Server.HealthAddress,
	}
	want := map[string]string{
		"address": o.Address, "server name": o.TLSServerName, "ca": o.CACertFile,
		"instance": o.InstanceID, "namespace": o.Namespace, "mount": o.TransitMount, "key": o.TransitKey,
		"provider": o.ProviderName, "cluster": o.ClusterID, "mount id": o.TransitMountID, "lineage": o.KeyLineage,
		"group": o.SocketGroup, "metrics": o.MetricsAddress, "health": o.HealthAddress,
	}
	if j := c.Auth.JWT; j != nil {
		got["auth"] = strings.Join([]string{j.MountPath, j.Role, j.JWTFile, j.ExpectedIssuer, j.ExpectedAudience, j.ExpectedSubject}, "\n")
		want["auth"] = strings.Join([]string{o.AuthMount, o.AuthRole, o.JWTFile, o.JWTIssuer, o.JWTAudience, o.JWTSubject}, "\n")
	}
	if x := c.Auth.Cert; x != nil {
		got["auth"] = strings.Join([]string{x.MountPath, x.Name, x.CertificateFile, x.KeyFile}, "\n")
		want["auth"] = strings.Join([]string{o.AuthMount, o.AuthRole, o.CertFile, o.CertKeyFile}, "\n")
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("the configuration says %q\nwant %q", got, want)
	}
	for _, name := range []string{encryptionFile, prepareFile} {
		readEncryption(t, load(name), o)
	}
	if o.For == StaticPod {
		readPod(t, load(manifestFile), o)
	}
}

func readEncryption(t failer, raw []byte, o Options) {
	t.Helper()
	var e struct {
		APIVersion, Kind string
		Resources        []struct {
			Resources []string
			Providers []struct {
				KMS *struct{ APIVersion, Name, Endpoint, Timeout string }
				// Identity is there when it is not nil.
				Identity *struct{}
			}
		}
	}
	if err := yaml.UnmarshalStrict(raw, &e); err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	if len(e.Resources) != 1 || !reflect.DeepEqual(e.Resources[0].Resources, o.Resources) || len(e.Resources[0].Providers) != 2 {
		t.Fatalf("the EncryptionConfiguration is for %+v, want %q", e.Resources, o.Resources)
	}
	found := 0
	for _, p := range e.Resources[0].Providers {
		if p.KMS != nil && p.KMS.Name == o.ProviderName && p.KMS.APIVersion == "v2" && p.KMS.Endpoint == "unix:///run/openbao-kms/kms.sock" && p.KMS.Timeout == "3s" {
			found++
		}
	}
	if found != 1 {
		t.Fatalf("the EncryptionConfiguration does not name %q:\n%s", o.ProviderName, raw)
	}
}

func readPod(t failer, raw []byte, o Options) {
	t.Helper()
	var p struct {
		Spec struct {
			Containers []struct{ Image string }
			Volumes    []struct{ HostPath struct{ Path string } }
		}
	}
	if err := yaml.Unmarshal(raw, &p); err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	if len(p.Spec.Containers) != 1 || p.Spec.Containers[0].Image != o.Image {
		t.Fatalf("the pod runs %q, want %q", p.Spec.Containers, o.Image)
	}
	mounted := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		mounted[v.HostPath.Path] = true
	}
	for _, path := range o.credentials() {
		if !mounted[filepath.Dir(path)] {
			t.Fatalf("the pod does not mount the directory of %q", path)
		}
	}
}
