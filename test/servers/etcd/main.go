// Command etcd is the etcd server, built from its published module, for tests and the demo. It adds nothing to go.etcd.io/etcd/server and
// takes the same flags; nothing of it is ever part of the product.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
