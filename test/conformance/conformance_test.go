package conformance_test

import (
	"flag"
	"os"
	"testing"

	"github.com/baokms/baokms/test/conformance"
)

var (
	socketFlag   = flag.String("socket", os.Getenv("KMS_SOCKET"), "run the black-box cases on this KMS v2 socket; empty starts a provider of our own and runs everything")
	contractFlag = flag.Bool("contract", true, "with -socket: hold it to this project's error policy and wire contract too")
)

func TestConformance(t *testing.T) {
	if *socketFlag != "" {
		conformance.Run(t, conformance.Target{Socket: *socketFlag, Contract: *contractFlag})
		return
	}
	ours := newNode(t, conformance.Settings{}).target()
	t.Run("everything", func(t *testing.T) { conformance.Run(t, ours) })
	// What -socket runs, on a provider that is known: a socket alone must be enough for it.
	t.Run("socket alone", func(t *testing.T) {
		conformance.Run(t, conformance.Target{Socket: ours.Socket, Contract: true})
	})
	t.Run("socket alone, by KMS v2 only", func(t *testing.T) {
		conformance.Run(t, conformance.Target{Socket: ours.Socket})
	})
}
