package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
		{Key: "vcs.time", Value: "2026-11-30T02:00:00Z"},
		{Key: "vcs.modified", Value: "true"},
	}
	released := debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}, Settings: vcs}
	devel := debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
	cases := []struct {
		name                             string
		number, commit, buildDate, dirty string
		build                            debug.BuildInfo
		want                             Info
	}{
		{name: "nothing is known", build: devel,
			want: Info{Version: "devel", Commit: "unknown", BuildDate: "unknown"}},
		{name: "the toolchain's record", build: released,
			want: Info{Version: "v1.0.0", Commit: "0123456789abcdef0123456789abcdef01234567", BuildDate: "2026-11-30T02:00:00Z", Dirty: true}},
		{name: "the linker wins", build: released,
			number: "v2.0.0+build.1", commit: "abc", buildDate: "2026-12-01T00:00:00Z", dirty: "false",
			want: Info{Version: "v2.0.0+build.1", Commit: "abc", BuildDate: "2026-12-01T00:00:00Z"}},
		{name: "64 bytes are kept", build: devel, number: strings.Repeat("v", 64), commit: "c",
			want: Info{Version: strings.Repeat("v", 64), Commit: "c", BuildDate: "unknown"}},
		{name: "unfit values", build: devel,
			number: strings.Repeat("v", 65), commit: "a b", buildDate: "x\n", dirty: "perhaps",
			want: Info{Version: "unknown", Commit: "unknown", BuildDate: "unknown"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			number, commit, buildDate, dirty = c.number, c.commit, c.buildDate, c.dirty
			t.Cleanup(func() { number, commit, buildDate, dirty = "", "", "", "" })
			c.want.GoVersion = runtime.Version()
			if got := describe(&c.build); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestGetIsOfThisBinary(t *testing.T) {
	if got := Get(); got.GoVersion != runtime.Version() || got.Version == "" {
		t.Errorf("got %+v", got)
	}
}
