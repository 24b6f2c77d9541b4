package stack

import (
	"context"
	"errors"
	"time"
)

// ReporterOptions say how a node reporter is run. Binary, Kubeconfig, Dir, Node and Socket are required.
type ReporterOptions struct {
	// Binary is bao-kms-manager.
	Binary string
	// Kubeconfig is who it is.
	Kubeconfig string
	// Dir is where its log is; it is made when it is not there.
	Dir string
	// Node is the name of the node, Socket the path of its provider's report socket.
	Node   string
	Socket string
	// Interval is the longest time between two looks at the socket, Heartbeat between two writes. 0 is short: half a second, and a second.
	Interval  time.Duration
	Heartbeat time.Duration
	// NoWait returns once the process runs, for a reporter that is not meant to get ready.
	NoWait bool
}

// Reporter is a running `bao-kms-manager node-reporter`.
type Reporter struct{ controller }

// StartReporter runs `bao-kms-manager node-reporter` and waits until /readyz says that it is ready, so until the API server holds a report
// of its node.
func StartReporter(ctx context.Context, o ReporterOptions) (*Reporter, error) {
	if o.Binary == "" || o.Kubeconfig == "" || o.Dir == "" || o.Node == "" || o.Socket == "" {
		return nil, errors.New("starting a node reporter: Binary, Kubeconfig, Dir, Node or Socket is missing")
	}
	args := []string{
		"node-reporter", "--kubeconfig=" + o.Kubeconfig, "--node-name=" + o.Node, "--report-socket=" + o.Socket,
		"--interval=" + or(o.Interval, 500*time.Millisecond).String(), "--heartbeat=" + or(o.Heartbeat, time.Second).String(),
	}
	r := &Reporter{controller{binary: o.Binary, args: args, noWait: o.NoWait}}
	return r, r.start(ctx, o.Dir)
}
