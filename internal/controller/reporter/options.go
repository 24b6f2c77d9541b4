package reporter

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The defaults (design: manager, KMSNodeReport).
const (
	// DefaultInterval is between two looks at the socket.
	DefaultInterval = 30 * time.Second
	// DefaultHeartbeat is the longest time between two writes.
	DefaultHeartbeat = 2 * time.Minute
)

// longestSocket is the longest path in bytes that a Unix socket's address holds.
const longestSocket = 107

// Options say which node is reported, from where and to where.
type Options struct {
	// Node is the node's name, and the name of its KMSNodeReport. Required.
	Node string
	// Socket is the absolute path of the provider's report socket,
	// server.reportSocketPath. Required; it need not exist yet.
	Socket string
	// Client reads and writes the KMSNodeReport and watches the plans. It must
	// read from the API server and not from a cache, and its scheme must know
	// api/v1alpha1. Required.
	Client client.WithWatch
	// Interval is the longest time between two looks at the socket; zero means
	// DefaultInterval. Each one is up to a fifth shorter, so that the reporters of
	// a fleet do not keep step.
	Interval time.Duration
	// Heartbeat is the longest time between two writes of an unchanged report, up
	// to a tenth shorter; zero means DefaultHeartbeat. It must not be below
	// Interval. A plan's reportMaxAge must be longer.
	Heartbeat time.Duration
	// Logger gets what happens; nil discards it.
	Logger *slog.Logger
}

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("node reporter: "+format, args...)) }
	if problems := validation.IsDNS1123Subdomain(o.Node); len(problems) > 0 {
		bad("the node name cannot be an object's name: %s; give the name of the Node object", strings.Join(problems, "; "))
	}
	switch {
	case !filepath.IsAbs(o.Socket):
		bad("the report socket's path is not absolute; give the one of server.reportSocketPath, as this process sees it")
	case len(o.Socket) > longestSocket:
		bad("the report socket's path is longer than %d bytes, and no socket can be there; mount its directory at a shorter path", longestSocket)
	}
	if o.Client == nil {
		bad("there is no Kubernetes client")
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = max(DefaultHeartbeat, o.Interval)
	}
	switch {
	case o.Interval < 0:
		bad("the interval is negative")
	case o.Heartbeat < o.Interval:
		bad("the heartbeat of %s is shorter than the interval of %s; make it as long at least", o.Heartbeat, o.Interval)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}
