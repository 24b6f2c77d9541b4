package diagnose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/config"
)

// TestWhichConfiguration: the message says where a path is from, and not the path.
func TestWhichConfiguration(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "config.yaml")
	for _, c := range []struct{ path, env, words string }{
		{gone, "", "there is no configuration file at the path in --config"},
		{gone, "/elsewhere", "the path in --config"},
		{gone, gone, "the path in $BAO_KMS_PROVIDER_CONFIG"},
	} {
		e := newExam(Options{ConfigPath: c.path, Getenv: func(string) string { return c.env }})
		fails("config_missing", c.words, "'bao-kms-provider init' makes one").hold(t, configValid, checkConfigValid(t.Context(), e))
	}
	e := newExam(Options{ConfigPath: config.DefaultPath, Getenv: func(string) string { return "" }})
	if got := e.whichPath(); got != "the default path" {
		t.Errorf("the default path is told as %q", got)
	}
}

// TestUnknownFields: what is not a field could be anything, so a report has only
// its line; which field may be meant is one of ours.
func TestUnknownFields(t *testing.T) {
	const odd = "hvsatokenInAWrongPlace"
	look := func(text string) finding {
		t.Helper()
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := checkConfigValid(t.Context(), newExam(Options{ConfigPath: path, Getenv: func(string) string { return "" }}))
		if strings.Contains(f.message+f.nextStep, odd) || strings.Contains(f.message+f.nextStep, "rolle") {
			t.Errorf("the name is repeated: %+v", f)
		}
		return f
	}
	fails("config_invalid", "line 1: an unknown field", "problems").hold(t, "one of many", look(odd+": x\n"+odd+": y\n"))
	const whole = "configVersion: v1alpha1\nserver: {socketPath: /r/kms.sock, socketGroup: '0'}\nopenbao: {address: 'https://a.test:8200', caCertFile: /c.pem, tlsServerName: a.test, instanceId: b}\n" +
		"auth:\n  method: jwt\n  jwt:\n    mountPath: auth/j\n    role: r\n    jwtFile: /j\n    rolle: q\n" +
		"transit: {mountPath: m, keyName: k, keyIdScope: {providerName: p, clusterId: c, transitMountId: t, keyLineageId: l}}\nstate: {path: /s/r.json}\n"
	fails("config_invalid", "line 10: an unknown field; write role if you mean that field").hold(t, "alone", look(whole))
}

// TestLookedAsRoot: root may do what the provider's user may not.
func TestLookedAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody else is told
	}
	own := func(file string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	asRoot := warn("looked_as_root", "looked as root", "run this command as the provider's user (runuser -u openbao-kms")
	for _, c := range []struct {
		name  string
		group config.Group
		spoil func(e *exam)
		want  want
	}{
		{"before the first start", "12346", func(*exam) {}, asRoot},
		{"no state directory", "12346", func(e *exam) { e.config.State.Path = filepath.Join(t.TempDir(), "gone", "registry.json") }, asRoot},
		{"a group that is not there", "diagnose-no-such-group", func(*exam) {}, good},
		{"a node that runs as root", "12346", func(e *exam) {
			if err := os.WriteFile(e.config.State.Path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, good},
		{"sockets for root's group", "0", func(*exam) {}, good},
		{"the state of another", "12346", func(e *exam) { // registry.state tells that
			if err := os.Chown(filepath.Dir(e.config.State.Path), 12345, -1); err != nil {
				t.Fatal(err)
			}
		}, good},
	} {
		e := stateExam(t)
		e.o.ConfigPath, e.o.Getenv = own("configVersion: v1alpha1\n"), func(string) string { return "" }
		e.config.OpenBao.CACertFile, e.config.Auth.JWT.JWTFile = e.o.ConfigPath, e.o.ConfigPath
		e.config.Server.SocketGroup = c.group
		c.spoil(e)
		c.want.hold(t, c.name, checkConfigPermissions(t.Context(), e))
		e.config = nil
		good.hold(t, c.name+", no valid configuration", checkConfigPermissions(t.Context(), e))
	}
}

// TestTrustedDirectories: whoever can put another file in the place of one decides
// whom the provider trusts.
func TestTrustedDirectories(t *testing.T) {
	dir := func(mode os.FileMode) string {
		t.Helper()
		d := t.TempDir()
		if err := os.Chmod(d, mode); err != nil {
			t.Fatal(err)
		}
		return d
	}
	own, group, all, sticky := dir(0o750), dir(0o770), dir(0o757), dir(0o777|os.ModeSticky)
	groupOf := func(d string, gid int) string {
		if os.Geteuid() == 0 {
			if err := os.Chown(d, -1, gid); err != nil {
				t.Fatal(err)
			}
		}
		return d
	}
	group = groupOf(group, 12346)
	for _, c := range []struct {
		name            string
		config, ca, jwt string
		want            want
	}{
		{"in order", own, own, own, good},
		{"sticky", sticky, sticky, sticky, good},
		{"gone", filepath.Join(own, "gone"), own, own, good},
		{"the configuration's", all, own, own, fails("directory_writable", "the directory of the configuration file can be written by everybody (mode 0757): who can replace", "run chmod 0755 on the directory of the configuration file")},
		{"all in one", all, all, all, fails("directory_writable", "the directory of the configuration file, openbao.caCertFile and auth.jwt.jwtFile can be")},
		{"a group's", own, group, own, warn("directory_writable", "the directory of openbao.caCertFile can be written by its group (mode 0770)", "run chmod 0750")},
		{"several", own, group, all, fails("directory_writable", "the directory of auth.jwt.jwtFile can be written by everybody (mode 0757); the directory of openbao.caCertFile can be written by its group",
			"run chmod 0755 on the directory of auth.jwt.jwtFile; run chmod 0750 on the directory of openbao.caCertFile")},
	} {
		e := jwtExam()
		e.o.ConfigPath = filepath.Join(c.config, "config.yaml")
		e.config.OpenBao.CACertFile, e.config.Auth.JWT.JWTFile = filepath.Join(c.ca, "ca.pem"), filepath.Join(c.jwt, "jwt")
		c.want.hold(t, c.name, e.directories())
		if e.config = nil; c.config == all { // its own directory is known all the same
			fails("directory_writable", "the directory of the configuration file can be").hold(t, c.name, e.directories())
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	foreign := dir(0o755)
	if err := os.Chown(foreign, 12345, -1); err != nil {
		t.Fatal(err)
	}
	fails("directory_writable", "belongs to user 12345", "run this command as the provider's user", "make root the owner").
		hold(t, "of another user", judgeDirectory(trusted{foreign, []string{fieldJWT}}))
	good.hold(t, "root's group", judgeDirectory(trusted{groupOf(dir(0o770), 0), []string{fieldJWT}}))
}
