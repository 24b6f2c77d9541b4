package diagnose

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// reasonDirectory is the code of a directory in which others can replace a file.
const reasonDirectory = "directory_writable"

// trusted is a directory of files that decide whom the provider trusts.
type trusted struct {
	path  string
	files []string // as a person calls them
}

// trustedDirectories are those of the configuration and of what it names, each
// once. Without a valid configuration only its own is known.
func (e *exam) trustedDirectories() []trusted {
	all := []trusted{{filepath.Dir(e.o.ConfigPath), []string{"the configuration file"}}}
	if e.config == nil {
		return all
	}
	add := func(file, path string) {
		dir := filepath.Dir(path)
		for i := range all {
			if all[i].path == dir {
				all[i].files = append(all[i].files, file)
				return
			}
		}
		all = append(all, trusted{dir, []string{file}})
	}
	add(fieldCA, e.config.OpenBao.CACertFile)
	for _, f := range credentialFiles(e.config.Auth) {
		add(f.field, f.path)
	}
	return all
}

// directories judges who could replace the files that the provider reads. serve
// looks at the files alone: whose they are is checked there on the open file, so
// this is about what could come next.
func (e *exam) directories() finding {
	var found []finding
	for _, d := range e.trustedDirectories() {
		if f := judgeDirectory(d); f.result != "" {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return finding{}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return severity(b) - severity(a) })
	worst := found[0]
	for _, f := range found[1:] {
		worst.message += "; " + f.message
		worst.nextStep += "; " + f.nextStep
	}
	worst.message += ": who can replace a file there decides whom the provider trusts"
	return worst
}

// judgeDirectory judges one. One that cannot be looked at is told with its files.
func judgeDirectory(d trusted) finding {
	var st unix.Stat_t
	if unix.Stat(d.path, &st) != nil {
		return finding{}
	}
	subject := "the directory of " + inWords(d.files)
	mode := st.Mode & 0o7777
	chmod := fmt.Sprintf("run chmod %04o on %s", mode&^0o022, subject)
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return failed(reasonDirectory, subject+" belongs to "+userName(int(st.Uid))+", who is neither root nor the user of this command",
			runAsProvider+"; if you are, make root the owner of "+subject)
	case mode&unix.S_ISVTX != 0: // nobody can replace what is another's
		return finding{}
	case mode&unix.S_IWOTH != 0:
		return failed(reasonDirectory, fmt.Sprintf("%s can be written by everybody (mode %04o)", subject, mode), chmod)
	case mode&unix.S_IWGRP != 0 && st.Gid != 0:
		return warning(reasonDirectory, fmt.Sprintf("%s can be written by its group (mode %04o)", subject, mode), chmod)
	}
	return finding{}
}
