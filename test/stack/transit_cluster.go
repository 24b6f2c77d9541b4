package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// TransitCluster are Transit servers that share one raft storage: one of them is active, the others forward requests to it and take over
// when it is gone. Methods that start, stop or seal one of its servers must not run at the same time as each other.
type TransitCluster struct {
	nodes []*Transit
}

// clusterPatience is raftPatience of a cluster: with 1, a leader that gets no processor for half a second loses the lead, which happens
// where tests share a machine; with 2 it may wait for a second, and an election takes 2 to 4 s.
const clusterPatience = 2

// StartTransitCluster starts size servers in directories under Dir, joins them and sets the first one up as StartTransit does. They share
// the CA, the audit log, the JWT issuer and the role. Storage must be empty or raft, and NoSetup is not for a cluster.
func StartTransitCluster(ctx context.Context, size int, o TransitOptions) (*TransitCluster, error) {
	if size < 1 || o.NoSetup || o.Storage != "" && o.Storage != StorageRaft {
		return nil, errors.New("starting a Transit cluster: it has at least one server, raft storage, and is set up")
	}
	o.Storage, o.raftPatience = StorageRaft, clusterPatience
	dir := o.Dir
	o.Dir = filepath.Join(dir, "node-1")
	first, err := StartTransit(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &TransitCluster{nodes: []*Transit{first}}
	first.clustered = true
	// A server that joins may vote once it has been healthy for so long.
	autopilot := map[string]any{"server_stabilization_time": "200ms"}
	if err := first.Root().Do(ctx, http.MethodPost, "sys/storage/raft/autopilot/configuration", autopilot, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("configuring the cluster: %w", err), c.Stop())
	}
	for i := 2; i <= size; i++ {
		if err := c.join(ctx, fmt.Sprintf("node-%d", i), dir); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	if err := c.Settle(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// join starts one more server and makes it a voter.
func (c *TransitCluster) join(ctx context.Context, id, dir string) error {
	first := c.nodes[0]
	o := first.options
	o.Dir = filepath.Join(dir, id)
	t, err := newTransit(o)
	if err != nil {
		return err
	}
	t.nodeID, t.clustered = id, true
	t.unsealKey, t.issuer, t.role, t.audit = first.unsealKey, first.issuer, first.role, first.audit
	if err := withPorts(2, func(ports []int) error { t.ports = ports; return t.launch(ctx) }); err != nil {
		return err
	}
	c.nodes = append(c.nodes, t)
	ca, err := os.ReadFile(first.CAFile())
	if err != nil {
		return fmt.Errorf("reading the CA for the join: %w", err)
	}
	in := map[string]any{
		"leader_api_addr": first.Address(), "leader_ca_cert": string(ca), "leader_tls_servername": TransitServerName,
	}
	// On a busy machine the leader may not answer the one who joins in time.
	err = until(ctx, t.process(), id+" has joined the cluster", func(ctx context.Context) error {
		return t.Root().Do(ctx, http.MethodPost, "sys/storage/raft/join", in, nil)
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.root = t.root.With(first.Root().token)
	t.mu.Unlock()
	if err := t.Unseal(ctx); err != nil {
		return err
	}
	return c.awaitVoter(ctx, t)
}

// awaitVoter waits until a server that joined has caught up and may vote: without it the loss of another would leave no majority.
func (c *TransitCluster) awaitVoter(ctx context.Context, t *Transit) error {
	return until(ctx, t.process(), t.nodeID+" is a voter", func(ctx context.Context) error {
		var answer struct {
			Config struct {
				Servers []struct {
					ID    string `json:"node_id"`
					Voter bool   `json:"voter"`
				} `json:"servers"`
			} `json:"config"`
		}
		if err := c.nodes[0].Root().data(ctx, http.MethodGet, "sys/storage/raft/configuration", nil, &answer); err != nil {
			return err
		}
		for _, s := range answer.Config.Servers {
			if s.ID == t.nodeID && s.Voter {
				return nil
			}
		}
		return errors.New("it does not vote yet")
	})
}

// Nodes are the servers. The first one was set up; each may be stopped, killed, sealed and started by itself.
func (c *TransitCluster) Nodes() []*Transit { return c.nodes }

// Leader waits until one of the servers is active and returns it. Administration goes to it: a server that has just lost its leader
// forwards nothing.
func (c *TransitCluster) Leader(ctx context.Context) (*Transit, error) {
	var leader *Transit
	err := until(ctx, nil, "one server of the cluster is active", func(ctx context.Context) error {
		for _, t := range c.nodes {
			if _, ended := t.process().ExitCode(); ended {
				continue
			}
			if status, err := t.quickHealth(ctx); err == nil && status == http.StatusOK {
				leader = t
				return nil
			}
		}
		return errors.New("none is")
	})
	return leader, err
}

// StepDown makes the active server of a cluster leave the lead to another one.
func (t *Transit) StepDown(ctx context.Context) error {
	if err := t.Root().Do(ctx, http.MethodPut, "sys/step-down", nil, nil); err != nil {
		return fmt.Errorf("stepping down: %w", err)
	}
	return nil
}

// quickHealth is health of a server that may be frozen.
func (t *Transit) quickHealth(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	return t.health(ctx)
}

// Elections is how often a server of the cluster has become active since the cluster was started, by their logs. Where tests share a
// machine, a leader that gets no processor for too long loses the lead without anybody having done anything.
func (c *TransitCluster) Elections() (int, error) {
	n := 0
	for _, t := range c.nodes {
		log, err := os.ReadFile(filepath.Join(t.options.Dir, logFile))
		if err != nil {
			return 0, fmt.Errorf("reading the log of %s: %w", t.nodeID, err)
		}
		n += bytes.Count(log, []byte("acquired lock, enabling active operation"))
	}
	return n, nil
}

// Settle waits until every server that runs and is unsealed knows the active one, and so forwards what it is asked.
func (c *TransitCluster) Settle(ctx context.Context) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	return until(ctx, nil, "all servers of the cluster know the leader", func(ctx context.Context) error {
		for _, t := range c.nodes {
			status, err := t.quickHealth(ctx)
			if err != nil || status != http.StatusOK && status != http.StatusTooManyRequests {
				continue
			}
			var answer struct {
				Leader string `json:"leader_address"`
			}
			if err := t.Root().With("").Do(ctx, http.MethodGet, "sys/leader", nil, &answer); err != nil {
				return err
			}
			if answer.Leader != leader.Address() {
				return fmt.Errorf("%s does not", t.nodeID)
			}
			// Knowing it is not yet being connected to it: a server that cannot forward answers with a redirect.
			if err := t.Root().Do(ctx, http.MethodGet, "auth/token/lookup-self", nil, nil); err != nil {
				return fmt.Errorf("%s does not forward: %w", t.nodeID, err)
			}
		}
		return nil
	})
}

// Stop ends all servers, the active one last.
func (c *TransitCluster) Stop() error {
	var errs []error
	for i := len(c.nodes) - 1; i >= 0; i-- {
		errs = append(errs, c.nodes[i].Stop())
	}
	return errors.Join(errs...)
}

// Logs is the end of what each server printed.
func (c *TransitCluster) Logs() string {
	var all strings.Builder
	for _, t := range c.nodes {
		fmt.Fprintf(&all, "--- %s\n%s\n", t.nodeID, lastLines(t.Logs(), 25))
	}
	return all.String()
}

// Balance starts a load balancer in front of the servers, which asks each for its health as operators have theirs do. With activeOnly it
// sends connections to the active server alone; otherwise to every server that is unsealed, and standbys forward.
func (c *TransitCluster) Balance(activeOnly bool) (*Balancer, error) {
	backends := make([]Backend, len(c.nodes))
	for i, t := range c.nodes {
		backends[i] = Backend{
			Address: loopback(t.ports[0]),
			Healthy: func(ctx context.Context) bool {
				status, err := t.health(ctx)
				return err == nil && (status == http.StatusOK || !activeOnly && status == http.StatusTooManyRequests)
			},
		}
	}
	return StartBalancer(backends...)
}

// Balance starts a load balancer in front of a single server, which asks it nothing.
func (t *Transit) Balance() (*Balancer, error) {
	return StartBalancer(Backend{Address: loopback(t.ports[0])})
}
