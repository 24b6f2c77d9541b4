package resilience

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets more scenarios run side by side than there are processors: they mostly wait. A -parallel on the command line wins.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "6"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}
