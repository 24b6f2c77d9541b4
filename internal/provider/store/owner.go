package store

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// userName is how an error names a user: "user 990 (openbao-kms)", and without
// the name where the host does not know it.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		return fmt.Sprintf("user %d (%s)", uid, u.Username)
	}
	return fmt.Sprintf("user %d", uid)
}

// wrongUser is the error about a state directory of another user. What is wrong
// then is nearly always who runs the command: a new owner, or a file that root
// leaves there, would keep the provider from its state.
func wrongUser(path string, owner int, err error) *Error {
	uid := os.Geteuid()
	fix := "run the command as the user that owns the state"
	// Only root can become another user.
	if u, unknown := user.LookupId(strconv.Itoa(owner)); uid == 0 && unknown == nil && u.Username != "" {
		fix += " (runuser -u " + u.Username + " -- COMMAND)"
	}
	return &Error{path, fmt.Sprintf("the state directory is owned by %s, but this process runs as %s", userName(owner), userName(uid)),
		fix + "; change the owner only if the provider itself runs as another user", err}
}

// shut is the error about a state directory that cannot be opened.
func shut(path string, err error) *Error {
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil && int(st.Uid) != os.Geteuid() {
		return wrongUser(path, int(st.Uid), err)
	}
	return &Error{path, "the state directory cannot be opened",
		"run the command as the user that owns the state; it must be accessible for that user, and this process runs as " + userName(os.Geteuid()), err}
}
