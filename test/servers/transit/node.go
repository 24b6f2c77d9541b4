package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/command/server"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/physical/raft"
	"github.com/hashicorp/vault/sdk/physical"
	"github.com/hashicorp/vault/sdk/physical/file"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

// node is one running server: a core and the listeners before it.
type node struct {
	core    *vault.Core
	servers []*http.Server
	reloads []func() error
}

// start opens the storage, makes the core and serves it on every listener of the configuration. Listeners are opened before the core is
// made, so that a taken port costs nothing but an error.
func start(config *server.Config, logger hclog.InterceptLogger) (*node, error) {
	if len(config.Listeners) == 0 {
		return nil, errors.New("the configuration has no listener: add a `listener` of type tcp")
	}
	n := &node{}
	var open []net.Listener
	closeAll := func() {
		for _, l := range open {
			_ = l.Close()
		}
	}
	for _, lc := range config.Listeners {
		l, _, reload, err := server.NewListener(lc, io.Discard, nil)
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("opening the listener %s: %w", lc.Address, err)
		}
		open = append(open, l)
		if reload != nil {
			n.reloads = append(n.reloads, reload)
		}
	}
	core, err := newCore(config, logger)
	if err != nil {
		closeAll()
		return nil, err
	}
	n.core = core
	for i, lc := range config.Listeners {
		if lc.MaxRequestSize == 0 {
			lc.MaxRequestSize = vaulthttp.DefaultMaxRequestSize
		}
		if lc.MaxRequestDuration == 0 {
			lc.MaxRequestDuration = vault.DefaultMaxRequestDuration
		}
		srv := &http.Server{
			Handler:           vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core, ListenerConfig: lc}),
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       30 * time.Second,
			IdleTimeout:       5 * time.Minute,
			ErrorLog:          logger.StandardLogger(nil),
		}
		n.servers = append(n.servers, srv)
		go serveListener(srv, open[i], logger)
	}
	return n, nil
}

// serveListener runs until stop closes the server.
func serveListener(srv *http.Server, l net.Listener, logger hclog.Logger) {
	if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		logger.Error("a listener stopped serving", "error", err)
	}
}

func newCore(config *server.Config, logger hclog.InterceptLogger) (*vault.Core, error) {
	storage, err := newStorage(config, logger)
	if err != nil {
		return nil, err
	}
	coreConfig := &vault.CoreConfig{
		RawConfig:          config,
		Physical:           storage,
		StorageType:        config.Storage.Type,
		RedirectAddr:       config.Storage.RedirectAddr,
		AuditBackends:      auditDevices(),
		CredentialBackends: loginMethods(),
		LogicalBackends:    secretsEngines(),
		BuiltinRegistry:    plugins{},
		Logger:             logger,
		DisableCache:       config.DisableCache,
		DisableMlock:       config.DisableMlock,
		MaxLeaseTTL:        config.MaxLeaseTTL,
		DefaultLeaseTTL:    config.DefaultLeaseTTL,
		ClusterName:        config.ClusterName,
		CacheSize:          config.CacheSize,
	}
	clustered := false
	if ha, ok := storage.(physical.HABackend); ok && ha.HAEnabled() {
		coreConfig.HAPhysical = ha
		coreConfig.ClusterAddr = config.Storage.ClusterAddr
		clustered = true
	}
	core, err := vault.NewCore(coreConfig)
	if err != nil {
		return nil, fmt.Errorf("making the core: %w", err)
	}
	if clustered {
		addrs, err := clusterAddresses(config)
		if err != nil {
			return nil, err
		}
		core.SetClusterListenerAddrs(addrs)
		core.SetClusterHandler(vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core}))
	}
	return core, nil
}

// newStorage opens the storage of the configuration: raft (durable, one or more nodes), file (durable, one node) or inmem.
func newStorage(config *server.Config, logger hclog.Logger) (physical.Backend, error) {
	if config.Storage == nil {
		return nil, errors.New("the configuration has no storage: set raft, file or inmem")
	}
	factories := map[string]physical.Factory{
		"raft":  raft.NewRaftBackend,
		"file":  file.NewFileBackend,
		"inmem": inmem.NewInmem,
	}
	factory, ok := factories[config.Storage.Type]
	if !ok {
		return nil, fmt.Errorf("storage %q is not built in: use raft, file or inmem", config.Storage.Type)
	}
	if config.Storage.Type == "raft" && config.Storage.ClusterAddr == "" {
		return nil, errors.New("raft storage needs cluster_addr")
	}
	storage, err := factory(config.Storage.Config, logger.Named("storage."+config.Storage.Type))
	if err != nil {
		return nil, fmt.Errorf("opening the %s storage: %w", config.Storage.Type, err)
	}
	return storage, nil
}

// clusterAddresses are where the raft transport listens: cluster_address of each listener, else the port after the API's.
func clusterAddresses(config *server.Config) ([]*net.TCPAddr, error) {
	var addrs []*net.TCPAddr
	for _, lc := range config.Listeners {
		text, next := lc.ClusterAddress, 0
		if text == "" {
			text, next = lc.Address, 1
		}
		addr, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			return nil, fmt.Errorf("resolving the cluster address %s: %w", text, err)
		}
		addr.Port += next
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// reload reads the TLS certificates again.
func (n *node) reload() error {
	var errs []error
	for _, reload := range n.reloads {
		errs = append(errs, reload())
	}
	return errors.Join(errs...)
}

// stop closes the listeners and all connections, seals the core and closes its storage.
func (n *node) stop() error {
	var errs []error
	for _, srv := range n.servers {
		errs = append(errs, srv.Close())
	}
	errs = append(errs, n.core.Shutdown())
	return errors.Join(errs...)
}
