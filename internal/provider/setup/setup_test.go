package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/goldentest"
	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/version"
)

// example are the options that deploy shows and the documentation uses.
func example() Options {
	o := Defaults()
	o.Address = "https://openbao.example.net:8200"
	o.InstanceID = "bao-prod-a"
	o.TransitMount, o.TransitKey = "transit-kms", "workload-a"
	o.ProviderName, o.ClusterID = "openbao-kms-workload-a", "workload-a"
	o.TransitMountID, o.KeyLineage = "transit-kms-prod", "workload-a-2026"
	o.JWTIssuer, o.JWTAudience, o.JWTSubject = "https://issuer.example.net", "openbao", "control-plane-node"
	o.Build = version.Info{Version: "v1.2.3"}
	return o
}

func withCertificate(o Options) Options {
	o.AuthMethod = config.MethodCert
	o.JWTIssuer, o.JWTAudience, o.JWTSubject = "", "", ""
	o.CertCommonName = "control-plane-node"
	return o
}

func asStaticPod(o Options) Options {
	o.For, o.Image = StaticPod, "registry.example.net/bao-kms-provider:v1.2.3"
	return o
}

// everything has a value of its own in every flag that may have one.
func everything(o Options) Options {
	o.TLSServerName, o.Namespace = "bao.internal.example.net", "team/project"
	o.AuthMount, o.AuthRole, o.PolicyName = "auth/logins/nodes", "kms-nodes", "kms-policy"
	o.CACertFile = "/etc/pki/openbao/ca.pem"
	if o.AuthMethod == config.MethodCert {
		o.CertFile, o.CertKeyFile = "/etc/pki/openbao/node.pem", "/etc/pki/openbao/node-key.pem"
	} else {
		o.JWTFile = "/run/spire/openbao/jwt"
	}
	o.SocketGroup = "kube-apiserver"
	o.Resources = []string{"secrets", "configmaps", "*.example.net"}
	o.ReportSocket = true
	o.MetricsAddress, o.HealthAddress = "", ":9082"
	if o.For == StaticPod {
		o.SocketGroup, o.UserID, o.GroupID = "970", 980, 981
	}
	return o
}

// variants are the combinations that are looked at as a whole.
var variants = map[string]Options{
	"systemd-jwt":         example(),
	"systemd-cert":        withCertificate(example()),
	"static-pod-jwt":      asStaticPod(example()),
	"static-pod-cert":     asStaticPod(withCertificate(example())),
	"systemd-jwt-all":     everything(example()),
	"static-pod-cert-all": everything(asStaticPod(withCertificate(example()))),
}

// made runs Init into a new directory.
func made(t *testing.T, o Options) (dir string, r *command.Report) {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "made")
	r, err := Init(o)
	if err != nil {
		t.Fatal(err)
	}
	return o.Dir, r
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestGolden(t *testing.T) {
	for name, o := range variants {
		t.Run(name, func(t *testing.T) {
			dir, r := made(t, o)
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				goldentest.Check(t, filepath.Join("testdata", name, e.Name()), read(t, filepath.Join(dir, e.Name())))
			}
			var text strings.Builder
			if err := command.WriteText(&text, r, command.Style{Width: 80}); err != nil {
				t.Fatal(err)
			}
			// The one part that depends on where it was run.
			goldentest.Check(t, filepath.Join("testdata", name, "report.txt"), strings.ReplaceAll(text.String(), dir, "/srv/openbao-kms"))
		})
	}
}

// TestDeploy: what lies in deploy is what init writes for the example.
func TestDeploy(t *testing.T) {
	const deploy = "../../../deploy"
	for path, from := range map[string]struct {
		options Options
		file    string
	}{
		"systemd/bao-kms-provider.service":       {example(), unitFile},
		"static-pod/bao-kms-provider.yaml":       {asStaticPod(example()), manifestFile},
		"tmpfiles.d/openbao-kms.conf":            {example(), tmpfilesFile},
		"sysusers.d/openbao-kms.conf":            {example(), sysusersFile},
		"sysusers.d/openbao-kms-static-pod.conf": {asStaticPod(example()), sysusersFile},
	} {
		dir, _ := made(t, from.options)
		goldentest.Check(t, filepath.Join(deploy, path), read(t, filepath.Join(dir, from.file)))
	}
	system, _ := made(t, example())
	pod, _ := made(t, asStaticPod(example()))
	if read(t, filepath.Join(system, tmpfilesFile)) != read(t, filepath.Join(pod, tmpfilesFile)) {
		t.Error("deploy has one tmpfiles.d for both, but they differ")
	}
}
