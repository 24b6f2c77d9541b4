package diagnose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/socket"
)

// Reason codes of the sockets' paths.
const (
	reasonSocketGroup   = "socket_group_invalid"
	reasonSocketUnsafe  = "socket_path_unsafe"
	reasonNoSocketDir   = "socket_directory_missing"
	reasonSocketDirShut = "socket_directory_closed"
	reasonSocketMode    = "socket_permissions_differ"
)

// checkSocketPath judges where the sockets are, and who may use them, without
// binding anything.
func checkSocketPath(_ context.Context, e *exam) finding {
	s := e.config.Server
	gid, bad := e.socketGroup()
	if bad != nil {
		return *bad
	}
	worst := finding{}
	for _, each := range []struct{ field, path, user string }{
		{"server.socketPath", s.SocketPath, "an API server"}, {"server.reportSocketPath", s.ReportSocketPath, "a reader of the node report"},
	} {
		if each.path == "" {
			continue
		}
		f := judgeSocket(each.field, each.path, gid, s)
		if severity(f) < severity(finding{result: command.Warn}) && shutTo(gid, each.path) {
			f = warning(reasonSocketDirShut,
				"the group in server.socketGroup cannot enter the directory of "+each.field+": "+each.user+" that does not run as root cannot reach the socket",
				"give the directory that group and mode 0750 (chgrp, chmod); if all that use it run as root, put the provider's own group into server.socketGroup instead")
		}
		if severity(f) > severity(worst) || worst.message == "" {
			worst = f
		}
	}
	return worst
}

// shutTo reports whether the members of the sockets' group cannot enter the
// directory of a socket. Nobody relies on its group where that is only the
// provider's own, as init writes it, or root's.
func shutTo(gid int, path string) bool {
	var st unix.Stat_t
	if gid == 0 || gid == os.Getegid() || unix.Stat(filepath.Dir(path), &st) != nil {
		return false
	}
	if int(st.Gid) == gid {
		return st.Mode&unix.S_IXGRP == 0
	}
	return st.Mode&unix.S_IXOTH == 0
}

// severity orders findings, the worst last.
func severity(f finding) int {
	return slices.Index([]string{"", "skip", "pass", "warn", "fail"}, string(f.result))
}

// socketGroup resolves server.socketGroup, and makes sure that this user may give
// a socket that group.
func (e *exam) socketGroup() (gid int, bad *finding) {
	gid, err := e.config.Server.SocketGroup.GID()
	if err != nil {
		text, next := "server.socketGroup cannot be looked up on this node", "see that the group list of this node can be read, or write a decimal group ID"
		if refused, ok := errors.AsType[*config.Error](err); ok && len(refused.Problems) == 1 {
			p := refused.Problems[0]
			text, next = p.Field+" "+p.Text, p.Fix
		}
		f := failed(reasonSocketGroup, text, next)
		return 0, &f
	}
	if os.Geteuid() == 0 || gid == os.Getegid() {
		return gid, nil
	}
	if groups, err := os.Getgroups(); err == nil && slices.Contains(groups, gid) {
		return gid, nil
	}
	f := failed(reasonSocketGroup, userName(os.Geteuid())+" is no member of server.socketGroup, so the socket cannot be given that group",
		"if this is not the provider's user, "+runAsProvider+"; else make it a member (usermod -aG GROUP USER) and restart the provider")
	return 0, &f
}

// judgeSocket judges one of the sockets.
func judgeSocket(field, path string, gid int, s config.Server) finding {
	found, err := socket.Check(path)
	if err != nil {
		return socketFault(field, path, err)
	}
	switch found.State {
	case socket.Stale:
		return passed(field + " is a socket that nobody serves: the provider's next start replaces it")
	case socket.Served:
		if want := s.SocketMode.FileMode(); found.Mode != want || found.GID != gid {
			return warning(reasonSocketMode, fmt.Sprintf("%s has mode %04o and group %d, the configuration says %04o and %d", field, found.Mode, found.GID, want, gid),
				"restart the provider: it makes the socket anew, with what the configuration says")
		}
	}
	return finding{}
}

// socketFault tells what is wrong with a socket's path, without the path.
func socketFault(field, path string, err error) finding {
	f, ok := errors.AsType[*socket.Error](err)
	if !ok {
		return failed(reasonSocketUnsafe, field+" cannot be examined", "check its directory")
	}
	dir := filepath.Dir(path)
	if errors.Is(err, socket.ErrNoDirectory) {
		return warning(reasonNoSocketDir, "the directory of "+field+" does not exist",
			"create it, owned by the provider's user or root with mode 0750, unless the service's unit makes it (RuntimeDirectory)")
	}
	problem, next := strings.ReplaceAll(f.Problem, " "+dir, ""), f.Fix
	if strings.Contains(next, "/") { // a path
		next = "correct " + field
	}
	if errno, ok := errors.AsType[unix.Errno](f.Err); ok {
		problem += ": " + errno.Error()
	}
	if st := new(unix.Stat_t); unix.Lstat(dir, st) == nil && st.Uid != 0 && int(st.Uid) != os.Geteuid() || errors.Is(err, unix.EACCES) {
		next = "if this is not the provider's user, " + runAsProvider + "; else " + next
	}
	return failed(reasonSocketUnsafe, field+": "+problem, next)
}
