package diagnose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEndpointDifference(t *testing.T) {
	for _, c := range []struct {
		endpoint, words string
		near            nearness
	}{
		{"unix:///run/openbao-kms-nowhere/kms.sock", "", equal},
		{"unix:/run/openbao-kms-nowhere/kms.sock", "", equal}, // the API server dials the same
		{"UNIX:///run/openbao-kms-nowhere/kms.sock", "", equal},
		{"unix:///run/openbao%2dkms-nowhere/kms.sock", "", equal},
		{" unix:///run/openbao-kms-nowhere/kms.sock", "has white space around it", near},
		{"unix:///run/openbao-kms-nowhere/kms.sock ", "has white space around it", near},
		{"unix:///run/openbao-kms-nowhere/ kms.sock", "has white space in it", near},
		{"unix:///run/openbao-kms-nowhere/kms.sock/", "ends with a slash", near},
		{"unix:///run/openbao-kms-nowhere//kms.sock", "is not in its simplest form: it has double slashes or dots", near},
		{"unix:////run/openbao-kms-nowhere/kms.sock", "is not in its simplest form: it has double slashes or dots", near},
		{"unix://run/openbao-kms-nowhere/kms.sock", "has two slashes after unix: where there must be three", near},
		{"unix:run/openbao-kms-nowhere/kms.sock", "has no slash after unix: where there must be three", near},
		{"/run/openbao-kms-nowhere/kms.sock", "is a path alone: unix:// is missing before it", near},
		{"tcp:///run/openbao-kms-nowhere/kms.sock", "does not begin with unix://", near},
		{"unix:///run/OpenBao-KMS-nowhere/kms.sock", "differs from server.socketPath in upper and lower case", near},
		{"unix:///run/openbao-kms-nowhere/kmss.sock", "differs from server.socketPath in 1 character, at position 29 of the path", near},
		{"unix:///run/openbao-kms-nowhere/kns.socl", "differs from server.socketPath in 2 characters, the first at position 27 of the path", near},
		{"unix:///run/openbao-kms-nowhere/report.sock", "names another file in the directory of server.socketPath", near},
		{"unix:///var/run/openbao-kms-nowhere/kms.sock", "says var/run where server.socketPath says run", near},
		{"unix:///@openbao-kms-nowhere/kms.sock", "", far},
		{"unix:///@run/openbao-kms-nowhere/kms.sock", "names an abstract socket, but server.socketPath is a file", near},
		{"unix:///var/run/OpenBao-kms-nowhere/kms.sock/", "ends with a slash and says var/run where server.socketPath says run and differs from server.socketPath in upper and lower case", near},
		{"unix:///run/kmsplugin/socket.sock", "", far},
		{"unix:///run/elsewhere/kms.sock", "", far},
		{"unix://", "", far},
		{"", "", far},
	} {
		words, n := endpointDifference(c.endpoint, testSocket)
		if c.near == far {
			c.words = "names another socket than server.socketPath"
		}
		if words != c.words || n != c.near {
			t.Errorf("%q: %q, %d, want %q, %d", c.endpoint, words, n, c.words, c.near)
		}
	}
	if words, n := endpointDifference("unix:///run/openbao-kms-nowhere/kms.sock", "/var/run/openbao-kms-nowhere/kms.sock"); n != near || words != "says run where server.socketPath says var/run" {
		t.Errorf("%q, %d", words, n)
	}
	if words, n := endpointDifference("unix:///run/a#b/kms.sock", "/run/a#b/kms.sock"); n != near || !strings.Contains(words, "%23") {
		t.Errorf("%q, %d", words, n)
	}
}

// A link to the socket's directory reaches it on this node.
func TestEndpointThroughALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if words, n := endpointDifference("unix://"+link+"/../"+filepath.Base(filepath.Dir(link))+"/link/kms.sock", dir+"/kms.sock"); n == equal {
		t.Errorf("%q, %d", words, n)
	}
	if words, n := endpointDifference("unix://"+dir+"//kms.sock", dir+"/kms.sock"); n != same || words != "is not in its simplest form: it has double slashes or dots" {
		t.Errorf("%q, %d", words, n)
	}
	if words, n := endpointDifference("unix://"+link+"/kms.sock", dir+"/kms.sock"); n != same || words != "names it by another path" {
		t.Errorf("%q, %d", words, n)
	}
	e := encryptionExam(t, encryption(group("secrets", kms("endpoint: 'unix://"+link+"/kms.sock'"))))
	e.config.Server.SocketPath = dir + "/kms.sock"
	warn("endpoint_differs", "reaches the socket on this node, but names it by another path").hold(t, encryptionKMS, checkEncryptionProvider(t.Context(), e))
}

func TestNameDifference(t *testing.T) {
	for name, w := range map[string]struct {
		words string
		near  nearness
	}{
		testName:                 {"", equal},
		"\t" + testName:          {"has white space around it", near},
		"openbao-kms workload-a": {"has white space in it and differs from providerName in hyphens, dots or underscores", near},
		"Openbao-kms-workload-a": {"differs from providerName in upper and lower case", near},
		"openbaokmsworkload.a":   {"differs from providerName in hyphens, dots or underscores", near},
		"openbao-kms-workload-b": {"differs from providerName in 1 character, at position 22", far},
		"vault":                  {"is not providerName", far},
	} {
		if words, n := nameDifference(name, testName); words != w.words || n != w.near {
			t.Errorf("%q: %q, %d, want %q, %d", name, words, n, w.words, w.near)
		}
	}
}
