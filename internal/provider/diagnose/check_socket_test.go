package diagnose

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
)

// TestAStoppedProvider: it is no failure only before the first start, and where
// the command words it itself.
func TestAStoppedProvider(t *testing.T) {
	for _, c := range []struct {
		name       string
		files      []string
		encryption string
		doctor     bool
		want       want
	}{
		{"before the first start", nil, "", true, skip("no provider serves server.socketPath: none runs, or one is still starting; its log says which (there is nothing at that path)")},
		{"the API server is to use it", nil, "-", true, fails("provider_not_running", "no provider serves server.socketPath: none runs, or one is still starting; its log says which (there is nothing", "systemctl start bao-kms-provider", "journalctl -u bao-kms-provider", "crictl")},
		{"with state", []string{""}, "", true, fails("provider_not_running")},
		{"with a checkpoint", []string{".checkpoint"}, "", true, fails("provider_not_running")},
		{"rotation-plan", []string{""}, "", false, skip("none runs, or one is still starting")},
	} {
		e := stateExam(t, c.files...)
		e.config.Server.SocketPath = filepath.Join(t.TempDir(), "kms.sock")
		e.mustServe, e.o.EncryptionConfig = c.doctor, c.encryption
		c.want.hold(t, c.name, checkSocketKMS(t.Context(), e))
	}
	// Whether there is state cannot be seen, which registry.state tells.
	e := stateExam(t)
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	e.config.State.Path, e.config.Server.SocketPath, e.mustServe = filepath.Join(loop, "registry.json"), filepath.Join(t.TempDir(), "kms.sock"), true
	skip(registryState).hold(t, "hidden state", checkSocketKMS(t.Context(), e))
}

// TestSocketDirectoryOfAnotherGroup: who is let to the socket by its group must
// get to it.
func TestSocketDirectoryOfAnotherGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody else can give a directory to a group that it is not in
	}
	const other = 12346
	for _, c := range []struct {
		name  string
		group int
		mode  os.FileMode
		gid   int // of the directory
		want  want
	}{
		{"the provider's own group", os.Getegid(), 0o700, os.Getegid(), good},
		{"the group's directory", other, 0o750, other, good},
		{"everybody may enter", other, 0o751, os.Getegid(), good},
		{"of another group", other, 0o750, os.Getegid(), warn("socket_directory_closed", "the group in server.socketGroup cannot enter the directory of server.socketPath: an API server that does not run as root", "that group and mode 0750")},
		{"not for its group", other, 0o701, other, warn("socket_directory_closed")},
	} {
		dir := socketDir(t)
		if err := os.Chown(dir, -1, c.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		e := newExam(Options{})
		e.config = config.Default()
		e.config.Server.SocketPath, e.config.Server.SocketGroup = filepath.Join(dir, "kms.sock"), config.Group(strconv.Itoa(c.group))
		c.want.hold(t, c.name, checkSocketPath(t.Context(), e))
		if c.want.result == command.Warn {
			e.config.Server.ReportSocketPath, e.config.Server.SocketPath = e.config.Server.SocketPath, filepath.Join(openDir(t), "kms.sock")
			warn("socket_directory_closed", "server.reportSocketPath: a reader of the node report").hold(t, c.name+", report", checkSocketPath(t.Context(), e))
		}
	}
}

// openDir is a directory that everybody may enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := socketDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
