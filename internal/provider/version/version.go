// Package version says which build this is: for the version command, the
// build_info metric and the plugin-version annotation of every ciphertext.
//
// It only reads what the linker and the Go toolchain put into the binary. Every
// value is bounded and of plain characters, so that it can be a metric label
// and an annotation without further care. Any package may use it.
package version

import (
	"cmp"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
)

// Set by the linker:
//
//	go build -ldflags "-X github.com/baokms/baokms/internal/provider/version.number=v1.2.3 …"
//
// What is not set is taken from the toolchain's record of the build.
var (
	number    string // the release: v1.2.3
	commit    string // full hash of the commit
	buildDate string // RFC 3339, UTC
	dirty     string // "true" when the tree had changes that are in no commit
)

// Info describes a build. A value that is not known is "unknown"; all are at
// most 64 bytes of letters, digits and . _ + : -
type Info struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	BuildDate string `json:"buildDate"`
	Dirty     bool   `json:"dirty"`
	GoVersion string `json:"goVersion"`
}

// Get returns this binary's build.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return describe(build)
}

func describe(build *debug.BuildInfo) Info {
	settings := map[string]string{}
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	module := build.Main.Version
	if module == "(devel)" {
		module = ""
	}
	changed, _ := strconv.ParseBool(cmp.Or(dirty, settings["vcs.modified"]))
	return Info{
		Version:   bounded(cmp.Or(number, module, "devel")),
		Commit:    bounded(cmp.Or(commit, settings["vcs.revision"])),
		BuildDate: bounded(cmp.Or(buildDate, settings["vcs.time"])),
		Dirty:     changed,
		GoVersion: bounded(runtime.Version()),
	}
}

var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+:-]{0,63}$`)

// bounded is v, or "unknown" when v is not fit to be a label.
func bounded(v string) string {
	if !plain.MatchString(v) {
		return "unknown"
	}
	return v
}
