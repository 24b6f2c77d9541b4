package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/backend"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// Reason codes of the configuration's checks.
const (
	reasonConfigMissing    = "config_missing"
	reasonConfigUnreadable = "config_unreadable"
	reasonConfigInvalid    = "config_invalid"
	reasonConfigUnsafe     = "config_unsafe"
	reasonAsRoot           = "looked_as_root"
)

// toldProblems is how many of a configuration's problems a message names.
const toldProblems = 3

// runAsProvider is how a person on the node becomes the provider's user.
const runAsProvider = "run this command as the provider's user (runuser -u openbao-kms -- bao-kms-provider ...)"

// checkConfigValid judges the content of the configuration file, also where the
// file itself is not safe, and opens the way to OpenBao.
func checkConfigValid(_ context.Context, e *exam) finding {
	x := config.Examine(e.o.ConfigPath, config.Getenv(e.o.Getenv))
	if r := x.Refused; r != nil {
		if r.Err != nil {
			return unreadable(r.Err, e.whichPath())
		}
		return problems(r.Problems)
	}
	e.config = x.Config
	// What it cannot be opened for is a matter of OpenBao's checks.
	if e.way, e.wayErr = backend.Open(x.Config, backend.Options{}); e.way != nil {
		e.readKey = e.way.Transit.ReadKey
	}
	return finding{}
}

// whichPath says where the path of the configuration is from.
func (e *exam) whichPath() string {
	switch e.o.ConfigPath {
	case e.o.Getenv(config.EnvConfig):
		return "the path in $" + config.EnvConfig
	case config.DefaultPath:
		return "the default path"
	}
	return "the path in --config"
}

// unreadable is a configuration file whose content could not be looked at.
func unreadable(err error, which string) finding {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed(reasonConfigMissing, "there is no configuration file at "+which,
			"give the path with --config or $"+config.EnvConfig+", or write the file: 'bao-kms-provider init' makes one")
	case errors.Is(err, fs.ErrPermission):
		return skippedFor(configPermissions)
	}
	problem, next := fileProblem(err)
	return failed(reasonConfigUnreadable, "the configuration file cannot be read: "+problem, next)
}

// fileProblem is a file's error without the file's path.
func fileProblem(err error) (problem, next string) {
	e, ok := errors.AsType[*securefile.Error](err)
	if !ok {
		return "the system refuses it", "check the file and its file system"
	}
	problem, next = e.Problem, e.Fix
	if errno, ok := errors.AsType[unix.Errno](e.Err); ok && errno != unix.ENOENT { // the problem says it already
		problem += ": " + errno.Error()
	}
	if strings.Contains(next, "/") { // a path
		next = "give an absolute path in its simplest form"
	}
	return problem, next
}

// problems tells how many there are and the first of them. One message with all
// of them could not be read, and the config command has them as a list.
func problems(all []config.Problem) finding {
	if len(all) == 1 {
		return failed(reasonConfigInvalid, problemText(all[0]), all[0].Fix)
	}
	var told []string
	for _, p := range all[:min(len(all), toldProblems)] {
		told = append(told, problemText(p))
	}
	message := fmt.Sprintf("%d problems: %s", len(all), strings.Join(told, "; "))
	if more := len(all) - len(told); more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return failed(reasonConfigInvalid, message, "run 'bao-kms-provider config' with the same --config: it lists every problem and what to write")
}

// problemText is a problem without its fix. The name of a field that does not
// exist could be anything, so it is not repeated in a report.
func problemText(p config.Problem) string {
	if p.Unknown {
		return fmt.Sprintf("line %d: an unknown field", p.Line)
	}
	p.Fix = ""
	return p.String()
}

// checkConfigPermissions judges the configuration file and not its content, and
// the directories of all files that decide whom the provider trusts.
func checkConfigPermissions(_ context.Context, e *exam) finding {
	if f := e.configFile(); f.result != "" {
		return f
	}
	if f := e.directories(); f.result != "" {
		return f
	}
	if e.config != nil && os.Geteuid() == 0 && e.servedByAnother() {
		return warning(reasonAsRoot, "looked as root, who may read and write everything: whether the provider's user may is not judged", runAsProvider)
	}
	return finding{}
}

// servedByAnother reports whether the provider will most likely not run as root:
// it has not left state in a directory of root's, and its sockets are for a group
// that root would not need. A directory that is another user's already is told by
// registry.state, a group that is not there by socket.path.
func (e *exam) servedByAnother() bool {
	var st unix.Stat_t
	switch err := unix.Stat(filepath.Dir(e.config.State.Path), &st); {
	case err == nil && st.Uid != 0, e.trace() != noState:
		return false
	}
	gid, err := e.config.Server.SocketGroup.GID()
	return err == nil && gid != 0
}

// configFile judges the configuration file.
func (e *exam) configFile() finding {
	x := config.Examine(e.o.ConfigPath, config.Getenv(e.o.Getenv))
	if x.Unsafe == nil {
		return finding{}
	}
	denied := errors.Is(x.Unsafe, fs.ErrPermission)
	if x.Refused != nil {
		denied = denied || errors.Is(x.Refused.Err, fs.ErrPermission)
	}
	if x.Refused != nil && x.Refused.Err != nil && !denied {
		return skippedFor(configValid) // there is no file to judge
	}
	if denied {
		return failed(reasonConfigUnsafe, "the configuration file cannot be read by "+userName(os.Geteuid()), runAsProvider+
			"; if you are, give the file and its directory the owner root and the group of the provider's user, with modes 0640 and 0750")
	}
	problem, next := fileProblem(x.Unsafe)
	if info, err := os.Lstat(e.o.ConfigPath); err == nil {
		st, ok := info.Sys().(*syscall.Stat_t)
		if foreign := ok && st.Uid != 0 && int(st.Uid) != os.Geteuid(); foreign && info.Mode().IsRegular() {
			problem = "belongs to " + userName(int(st.Uid)) + ", but its owner must be root or who reads it, here " + userName(os.Geteuid())
			next = runAsProvider + "; if you are, make root its owner"
		}
	}
	return failed(reasonConfigUnsafe, "the configuration file "+problem, next)
}

// userName is a user as people know it, with the number.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("user %s (%d)", u.Username, uid)
	}
	return fmt.Sprintf("user %d", uid)
}
