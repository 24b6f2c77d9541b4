package diagnose

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/securefile"
)

// failure is a failure on the way to OpenBao, or OpenBao's own. Its reason is
// the failure's class.
func failure(err error) finding {
	message, next := tell(err)
	return failed(string(fault.ClassOf(err)), message, next)
}

// tell is a failure in the words of the package that met it: what was found, and
// the next step. Those words are fixed (see fault) and hold nothing secret.
func tell(err error) (message, next string) {
	f := faultOf(err)
	if f == nil {
		return fault.Unknown.Text(), "report this as a defect"
	}
	what, next := split(f.Detail, "")
	switch {
	case f.Detail == "":
		next = "run the command again; if that does not help, see OpenBao's log and the network path"
	case next == "":
		what, next = "", what // the detail is a next step alone
	}
	if message = f.Cause.Text(); what != "" {
		message += ": " + what
	}
	if f.HTTPStatus != 0 {
		message += fmt.Sprintf(" (HTTP %d)", f.HTTPStatus)
	}
	return message, next
}

// split cuts an error's text, which ends with ": " and the next step; otherwise
// is the next step of one that has none.
func split(text, otherwise string) (message, next string) {
	if at := strings.LastIndex(text, ": "); at >= 0 {
		return text[:at], text[at+2:]
	}
	return text, otherwise
}

func faultOf(err error) *fault.Error {
	f, _ := errors.AsType[*fault.Error](err)
	return f
}

func fileError(err error) *securefile.Error {
	f, _ := errors.AsType[*securefile.Error](err)
	return f
}

func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }

// foreignOwner is whose a file is that belongs neither to root nor to the user
// of this process.
func foreignOwner(path string) (owner string, foreign bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 || int(st.Uid) == os.Geteuid() {
		return "", false
	}
	return userName(int(st.Uid)), true
}

func thisUser() string { return userName(os.Geteuid()) }

// moment is a time as reports write it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// span is a time as people say it: no finer than needed.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = d.Round(time.Second); {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Hour:
		d = d.Round(time.Minute)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}
