package main

import (
	"strings"
	"testing"
)

// TestTable shows what kubectl prints without the columns for which there is no
// room, within 80 columns for the longest values that there are.
func TestTable(t *testing.T) {
	for _, c := range []struct{ name, printed, want string }{
		{"a row", `NAME   PHASE      VERSION   NODES   CONVERGED   REWRITE-SAFE   RETIREMENT   AGE
demo   Rotating   1         0/1     False       False                       11s
`, `       PHASE      VERSION   NODES   CONVERGED   REWRITE-SAFE   RETIREMENT
       Rotating   1         0/1     False       False
`},
		{"the longest values", `NAME   PHASE            VERSION   NODES   CONVERGED   REWRITE-SAFE   RETIREMENT    AGE
demo   AwaitingReview   2         1/1     True        True           1/1 applied   2m58s
`, `       PHASE            VERSION   NODES   CONVERGED   REWRITE-SAFE   RETIREMENT
       AwaitingReview   2         1/1     True        True           1/1 applied
`},
		{"not judged yet", `NAME   PHASE   VERSION   NODES   CONVERGED   REWRITE-SAFE   RETIREMENT   AGE
demo                                                                     0s
`, `       PHASE   VERSION   NODES   CONVERGED   REWRITE-SAFE   RETIREMENT
       
`},
		{"something else", "no table\n", "       no table\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			s := &screen{w: &b}
			s.table(c.printed)
			if b.String() != c.want {
				t.Errorf("it shows\n%s, want\n%s", b.String(), c.want)
			}
			for line := range strings.Lines(b.String()) {
				if n := len(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("a line has %d columns: %s", n, line)
				}
			}
		})
	}
}
