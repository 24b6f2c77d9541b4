package assess

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLists(t *testing.T) {
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("n", i))
	}
	for count, want := range map[int]string{0: "none", 1: "n0", 2: "n0 and n1", 3: "n0, n1 and n2", 8: "n0, n1, n2, n3, n4, n5, n6 and n7",
		9: "n0, n1, n2, n3, n4, n5, n6, n7 and 1 more", 10: "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"} {
		if got := list(names[:count]); got != want {
			t.Errorf("%d: %q, want %q", count, got, want)
		}
	}
	for want, versions := range map[string][]int32{"nothing": nil, "version 7": {7}, "versions 1 and 2": {1, 2}} {
		if got := versionList(versions); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := few(names); got != "n0 n1 n2 n3 n4 n5 n6 n7 There are 2 more of these." {
		t.Errorf("%q", got)
	}
	if got := few(names[:8]); got != "n0 n1 n2 n3 n4 n5 n6 n7" {
		t.Errorf("%q", got)
	}
}

func TestTextsOfReports(t *testing.T) {
	if got, want := quoted("a\nb\x1b[31mc\xff"), "a b [31mc\uFFFD"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, long := range []string{quoted(strings.Repeat("é", 1000)), clipped(strings.Repeat("é", 40000))} {
		if !utf8.ValidString(long) || len(long) > maxMessage+len("…") || !strings.HasSuffix(long, "é…") {
			t.Errorf("%d bytes, %q at the end", len(long), long[len(long)-8:])
		}
	}
	if got := clipped("short."); got != "short." {
		t.Errorf("%q", got)
	}
}
