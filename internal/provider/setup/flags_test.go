package setup

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/config"
)

// TestEveryFlag: each is complete, bound to a field of its own, and together
// they are all fields but Build.
func TestEveryFlag(t *testing.T) {
	o := Defaults()
	names, values := map[string]bool{}, map[any]bool{}
	for _, f := range o.Flags() {
		if names[f.Name] || values[f.Value] {
			t.Errorf("--%s is there twice, or its field is", f.Name)
		}
		names[f.Name], values[f.Value] = true, true
		if f.Help == "" || f.Example == "" || strings.HasSuffix(f.Help, ".") {
			t.Errorf("--%s: help %q, example %q", f.Name, f.Help, f.Example)
		}
		if n := len("  --" + f.Name + " string   " + f.Help); n > 132 {
			t.Errorf("--%s: its help takes %d columns", f.Name, n)
		}
		if f.Choices != nil && !slices.Contains(f.Choices, *f.Value.(*string)) {
			t.Errorf("--%s: its default is none of %v", f.Name, f.Choices)
		}
	}
	if got, want := len(names), reflect.TypeFor[Options]().NumField()-1; got != want {
		t.Errorf("%d flags for %d fields", got, want)
	}
}

// TestIdentityHasNoDefault: what a key_id or the fingerprint is made of is given
// by a person. The namespace may be none.
func TestIdentityHasNoDefault(t *testing.T) {
	o := Defaults()
	full := o.complete()
	for _, f := range full.Flags() {
		identity := strings.HasPrefix(f.field, "transit.") || f.field == "openbao.instanceId" || f.field == "openbao.namespace"
		if v, isText := f.Value.(*string); identity && (!isText || *v != "") {
			t.Errorf("--%s has a default", f.Name)
		}
		if identity && f.field != "openbao.namespace" && f.needed != always {
			t.Errorf("--%s is not required", f.Name)
		}
	}
}

// refused runs Init, wants a FlagError and an untouched directory, and returns
// the problems by flag.
func refused(t *testing.T, o Options) map[string]Problem {
	t.Helper()
	parent := t.TempDir()
	if o.Dir == "" {
		o.Dir = filepath.Join(parent, "made")
	}
	r, err := Init(o)
	var e *FlagError
	if !errors.As(err, &e) || r != nil {
		t.Fatalf("got %v, %v, want a FlagError", r, err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%v was left, %v", left, err)
	}
	all := map[string]Problem{}
	for _, p := range e.Problems {
		if _, twice := all[p.Flag]; twice {
			t.Errorf("--%s has two problems", p.Flag)
		}
		if p.Fix == "" {
			t.Errorf("--%s %s: no fix", p.Flag, p.Text)
		}
		all[p.Flag] = p
	}
	return all
}

func TestMissingFlagsAreToldAtOnce(t *testing.T) {
	identity := []string{"address", "cluster-id", "instance-id", "key-lineage-id", "provider-name", "transit-key", "transit-mount", "transit-mount-id"}
	cases := map[string]struct {
		options Options
		want    []string
	}{
		"jwt":        {Defaults(), append([]string{"jwt-audience", "jwt-issuer", "jwt-subject"}, identity...)},
		"cert":       {Options{For: Systemd, AuthMethod: config.MethodCert, CACertFile: caPath, CertFile: certPath, CertKeyFile: keyPath, Resources: []string{"secrets"}}, append([]string{"cert-common-name"}, identity...)},
		"static pod": {func() Options { o := Defaults(); o.For = StaticPod; return o }(), append([]string{"image", "jwt-audience", "jwt-issuer", "jwt-subject"}, identity...)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := refused(t, c.options)
			var got []string
			for flag, p := range all {
				got = append(got, flag)
				if !strings.HasPrefix(p.Text, "is missing: ") || !strings.Contains(p.Fix, "for example --"+flag+" ") {
					t.Errorf("%s", p)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("told %v\nwant %v", got, c.want)
			}
		})
	}
}

// TestRefusals: one flag is changed, and this flag alone is blamed, with words
// that say why and never the value.
func TestRefusals(t *testing.T) {
	type change = func(*Options)
	systemd, cert, pod := example(), withCertificate(example()), asStaticPod(example())
	cases := []struct {
		base   Options
		flag   string
		change change
		words  string
	}{
		{systemd, "for", func(o *Options) { o.For = "docker" }, "is none of systemd, static-pod"},
		{systemd, "auth-method", func(o *Options) { o.AuthMethod = "token" }, "is none of jwt, cert"},
		{systemd, "address", func(o *Options) { o.Address = "http://127.0.0.1:8200" }, "is not encrypted"},
		{systemd, "address", func(o *Options) { o.Address = "https://root:hunter2@bao" }, "user name or password"},
		{systemd, "tls-server-name", func(o *Options) { o.TLSServerName = "bao:8200" }, "neither a host name"},
		{systemd, "ca-cert-file", func(o *Options) { o.CACertFile = "ca.pem" }, "not an absolute path"},
		{systemd, "ca-cert-file", func(o *Options) { o.CACertFile = "/etc/a b" }, "other than letters"},
		{systemd, "ca-cert-file", func(o *Options) { o.CACertFile = stateDir + "/ca.pem" }, "for something else"},
		{systemd, "jwt-file", func(o *Options) { o.JWTFile = "/root/jwt" }, "does not see"},
		{systemd, "jwt-file", func(o *Options) { o.JWTFile = "/tmp/jwt" }, "does not see"},
		{pod, "jwt-file", func(o *Options) { o.JWTFile = "/etc/jwt" }, "cannot be mounted"},
		{pod, "jwt-file", func(o *Options) { o.JWTFile = "/usr/local/bin/jwt" }, "the container's own"},
		{pod, "jwt-file", func(o *Options) { o.JWTFile = "/proc/1/jwt" }, "the container's own"},
		{pod, "jwt-file", func(o *Options) { o.JWTFile = "/sys/fs/jwt" }, "the container's own"},
		{pod, "jwt-file", func(o *Options) { o.JWTFile = "/dev/shm/jwt" }, "the container's own"},
		{pod, "ca-cert-file", func(o *Options) { o.CACertFile = "/lib64/ca/ca.pem" }, "the container's own"},
		{pod, "ca-cert-file", func(o *Options) { o.CACertFile = "/bin/ca.pem" }, "the container's own"},
		{pod, "ca-cert-file", func(o *Options) { o.CACertFile = "/sbin/x/ca.pem" }, "the container's own"},
		{pod, "ca-cert-file", func(o *Options) { o.CACertFile = configPath }, "the configuration's own"},
		{systemd, "jwt-file", func(o *Options) { o.JWTFile = configPath }, "the configuration's own"},
		{cert, "cert-key-file", func(o *Options) { o.CertKeyFile = configPath }, "the configuration's own"},
		{systemd, "instance-id", func(o *Options) { o.InstanceID = " a" }, "white space"},
		{systemd, "instance-id", func(o *Options) { o.InstanceID = "a\nb" }, "control character"},
		{systemd, "instance-id", func(o *Options) { o.InstanceID = "a\xff" }, "not valid UTF-8"},
		{systemd, "namespace", func(o *Options) { o.Namespace = "team/" }, "ends with a slash"},
		{systemd, "transit-mount", func(o *Options) { o.TransitMount = "sys" }, "keeps for itself"},
		{systemd, "transit-mount", func(o *Options) { o.TransitMount = "-kms/a" }, "takes for a flag"},
		{systemd, "transit-key", func(o *Options) { o.TransitKey = "~a" }, "not a name that Transit accepts"},
		{systemd, "transit-key", func(o *Options) { o.TransitKey = "-a" }, "not a name that Transit accepts"},
		{systemd, "auth-role", func(o *Options) { o.AuthRole = "~root" }, "not a role name"},
		{systemd, "policy-name", func(o *Options) { o.PolicyName = "-f" }, "not a policy name"},
		{systemd, "transit-key", func(o *Options) { o.TransitKey = "a/b" }, "not a name that Transit accepts"},
		{systemd, "cluster-id", func(o *Options) { o.ClusterID = "\u0085" }, "control character"},
		{systemd, "transit-mount-id", func(o *Options) { o.TransitMountID = "a\x00" }, "control character"},
		{systemd, "key-lineage-id", func(o *Options) { o.KeyLineage = "\u00a0a" }, "white space"},
		{systemd, "provider-name", func(o *Options) { o.ProviderName = "a:b"; o.AuthRole, o.PolicyName = "a", "a" }, "holds a colon"},
		{systemd, "auth-mount", func(o *Options) { o.AuthMount = "jwt" }, "does not begin with auth/"},
		{systemd, "auth-role", func(o *Options) { o.AuthRole = "a b" }, "not a role name"},
		{systemd, "policy-name", func(o *Options) { o.PolicyName = "Kms" }, "not a policy name"},
		{systemd, "policy-name", func(o *Options) { o.PolicyName = "root" }, "a policy of OpenBao itself"},
		{systemd, "jwt-audience", func(o *Options) { o.JWTAudience = "a,b" }, "other than letters"},
		{systemd, "jwt-subject", func(o *Options) { o.JWTSubject = "@/etc/shadow" }, "takes for something else"},
		{systemd, "jwt-issuer", func(o *Options) { o.JWTIssuer = "-" }, "takes for something else"},
		{systemd, "jwt-issuer", func(o *Options) { o.JWTIssuer = "a " }, "white space"},
		{cert, "cert-common-name", func(o *Options) { o.CertCommonName = "*" }, "other than letters"},
		{cert, "cert-key-file", func(o *Options) { o.CertKeyFile = "" }, "is empty"},
		{cert, "cert-file", func(o *Options) { o.CertFile = "/run/openbao-kms/client.pem" }, "for something else"},
		{systemd, "socket-group", func(o *Options) { o.SocketGroup = "a b" }, "neither a group name"},
		{pod, "socket-group", func(o *Options) { o.SocketGroup = "kube-apiserver" }, "cannot look up"},
		{pod, "socket-group", func(o *Options) { o.SocketGroup = "2147483648" }, "above what the API server takes"},
		{pod, "socket-group", func(o *Options) { o.SocketGroup = "3000000000" }, "above what the API server takes"},
		{pod, "socket-group", func(o *Options) { o.SocketGroup = "0" }, "root's group"},
		{systemd, "socket-group", func(o *Options) { o.SocketGroup = "0" }, "root's group"},
		{systemd, "socket-group", func(o *Options) { o.SocketGroup = "root" }, "root's group"},
		{systemd, "metrics-address", func(o *Options) { o.MetricsAddress = "8081" }, "is not host:port"},
		{systemd, "health-address", func(o *Options) { o.HealthAddress = o.MetricsAddress }, "same address"},
		{systemd, "image", func(o *Options) { o.Image = "a:b" }, "is used with --for static-pod only"},
		{systemd, "user-id", func(o *Options) { o.UserID = 980 }, "is used with --for static-pod only"},
		{systemd, "group-id", func(o *Options) { o.GroupID = 980 }, "is used with --for static-pod only"},
		{systemd, "cert-file", func(o *Options) { o.CertFile = "/etc/pki/node.pem" }, "is used with --auth-method cert only"},
		{systemd, "cert-key-file", func(o *Options) { o.CertKeyFile = "/etc/pki/node.key" }, "is used with --auth-method cert only"},
		{systemd, "cert-common-name", func(o *Options) { o.CertCommonName = "a" }, "is used with --auth-method cert only"},
		{cert, "jwt-file", func(o *Options) { o.JWTFile = "/run/issuer/openbao/jwt" }, "is used with --auth-method jwt only"},
		{cert, "jwt-issuer", func(o *Options) { o.JWTIssuer = "a" }, "is used with --auth-method jwt only"},
		{cert, "jwt-audience", func(o *Options) { o.JWTAudience = "a" }, "is used with --auth-method jwt only"},
		{cert, "jwt-subject", func(o *Options) { o.JWTSubject = "a" }, "is used with --auth-method jwt only"},
		{pod, "image", func(o *Options) { o.Image = "registry.example.net:5000/provider" }, "which version"},
		{pod, "image", func(o *Options) { o.Image = "provider:latest" }, "which version"},
		{pod, "image", func(o *Options) { o.Image = "provider:1 --privileged" }, "not the name of an image"},
		{pod, "user-id", func(o *Options) { o.UserID = 0 }, "is not a number from 1"},
		{pod, "group-id", func(o *Options) { o.GroupID = -1 }, "is not a number from 1"},
		{systemd, "resources", func(o *Options) { o.Resources = nil }, "is empty"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"Secrets"} }, "no resource"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"secrets", ""} }, "no resource"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"*"} }, "has *"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"secrets.*"} }, "in all groups"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"events.events.k8s.io"} }, "nothing is stored"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"serviceipallocations"} }, "not encrypted"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"secrets", "secrets"} }, "twice"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"*.", "secrets"} }, "twice"},
		{systemd, "resources", func(o *Options) { o.Resources = []string{"deployments.apps", "*.*"} }, "twice"},
	}
	for _, c := range cases {
		o := c.base
		c.change(&o)
		all := refused(t, o)
		if p, blamed := all[c.flag]; !blamed || len(all) != 1 || !strings.Contains(p.Text, c.words) {
			t.Errorf("--%s with %q: got %v", c.flag, c.words, all)
		}
	}
}

// TestHighestSocketGroup: what is below the refused ones is taken, and so is a
// systemd unit's higher number.
func TestHighestSocketGroup(t *testing.T) {
	pod, unit := asStaticPod(example()), example()
	pod.SocketGroup, unit.SocketGroup = "2147483647", "3000000000"
	made(t, pod)
	made(t, unit)
}

// TestErrorsHoldNoValue: a token that was pasted into a wrong flag stays there.
func TestErrorsHoldNoValue(t *testing.T) {
	const token = "s.CanaryCanaryCanary\x07"
	o := everything(example())
	for i := range texts(&o) {
		o := everything(example())
		f := texts(&o)[i]
		*f.Value.(*string) = token
		o.Dir = filepath.Join(t.TempDir(), "made")
		_, err := Init(o)
		if err == nil {
			t.Errorf("--%s took a control character", f.Name)
		}
		if err != nil && strings.Contains(err.Error(), "Canary") {
			t.Errorf("%v", err)
		}
	}
}

// texts are the flags with one text, but the directory's.
func texts(o *Options) []Flag {
	return slices.DeleteFunc(o.Flags(), func(f Flag) bool {
		_, isText := f.Value.(*string)
		return !isText || f.Name == "dir"
	})
}
