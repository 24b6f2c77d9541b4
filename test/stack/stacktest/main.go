package stacktest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Main runs a package's tests for its TestMain, parallel of them side by side: each has servers of its own, and mostly waits for them, so
// that more fit beside each other than there are processors. A -parallel on the command line wins. It does not return.
func Main(m *testing.M, parallel int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}
