// Command kubectl is the command line of Kubernetes, built from its published modules, for tests and the demo. It adds nothing to
// k8s.io/kubectl and takes the same flags; nothing of it is ever part of the product.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
