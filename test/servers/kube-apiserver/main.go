// Command kube-apiserver is the API server of Kubernetes, built from its published modules, for tests and the demo. It adds nothing to
// k8s.io/kubernetes and takes the same flags; nothing of it is ever part of the product.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
