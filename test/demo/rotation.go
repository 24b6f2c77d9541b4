package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/baokms/baokms/test/envelope"
)

// activationDelay is short for an audience; the default is two minutes.
const activationDelay = 5 * time.Second

// snapshot is a line of the provider's registry, read from its state file.
type snapshot struct {
	Version      int    `json:"transitVersion"`
	KeyID        string `json:"kubernetesKeyId"`
	State        string `json:"state"`
	Observations int    `json:"stableObservations"`
	StableAt     int64  `json:"stableAtUnix"`
}

// registry reads what the node knows. The state file holds nothing secret.
func (w *world) registry() (map[int]snapshot, error) {
	content, err := os.ReadFile(w.node.Files.State)
	if err != nil {
		return nil, err
	}
	var file struct {
		Snapshots []snapshot `json:"snapshots"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, err
	}
	found := map[int]snapshot{}
	for _, s := range file.Snapshots {
		found[s.Version] = s
	}
	return found, nil
}

// await polls the registry until version 2 is as wanted.
func (w *world) await(ctx context.Context, wanted func(snapshot) bool) (map[int]snapshot, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := w.registry()
		if err != nil || wanted(r[2]) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("version 2 is %q with %d observations: %w", r[2].State, r[2].Observations, ctx.Err())
		case <-tick.C:
		}
	}
}

// rotate is the third act: OpenBao's key gets a new version, and the provider
// waits before it uses it.
func (w *world) rotate(ctx context.Context) error {
	w.title("The key is rotated: observed, never performed, by the provider")
	var before, after envelope.Envelope
	var r map[int]snapshot
	return w.acts(ctx, []act{
		{"The platform team rotates the key in OpenBao", func(ctx context.Context) (err error) {
			if before, err = w.envelope(ctx); err != nil {
				return err
			}
			_, err = w.transit.Rotate(ctx, w.transit.Key())
			return err
		}, nil},
		{"The provider sees it: pending, decrypts, does not encrypt yet", func(ctx context.Context) (err error) {
			r, err = w.await(ctx, func(s snapshot) bool { return s.State == "pending" })
			return err
		}, func() { w.showRegistry(r) }},
		w.planIs("Rotating", "kubectl get krp demo: not all nodes are on one key"),
		{"Two probes agree: the countdown begins", func(ctx context.Context) (err error) {
			r, err = w.await(ctx, func(s snapshot) bool { return s.StableAt != 0 })
			return err
		}, func() { w.countdown(ctx, r[2].StableAt) }},
		{"Promoted: saved, proved by a round trip, then published", func(ctx context.Context) (err error) {
			r, err = w.await(ctx, func(s snapshot) bool { return s.State == "active" })
			return err
		}, func() { w.showRegistry(r) }},
		w.planIs("Settling", "kubectl get krp demo: all agree, not for long enough yet"),
		{"The API server would notice within a minute: restart it now", w.api.Restart, nil},
		w.planIs("RewriteSafe", "kubectl get krp demo: from now on data may be rewritten"),
		{"Rewrite every Secret and ConfigMap", w.rewrite, nil},
		{"Read the raw Secret again", func(ctx context.Context) (err error) {
			after, err = w.envelope(ctx)
			if err == nil && after.KeyID != r[2].KeyID {
				err = fmt.Errorf("the rewritten Secret has key_id %s, want %s", after.KeyID, r[2].KeyID)
			}
			return err
		}, func() {
			w.show("key_id before", before.KeyID)
			w.show("key_id after", after.KeyID)
			w.show("wrapped seed", string(after.WrappedSeed))
		}},
		{"Read both back", w.readBack, nil},
	})
}

// countdown prints the seconds that are left of the delay since a version became
// stable, by this process's own clock as the provider counts them by its own.
func (w *world) countdown(ctx context.Context, stableAt int64) {
	over := time.Unix(stableAt, 0).Add(activationDelay)
	fmt.Fprint(w.w, "       promotion in")
	for left := int(time.Until(over) / time.Second); left > 0; left-- {
		fmt.Fprintf(w.w, " %d", left)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	fmt.Fprintln(w.w, " soon")
}

func (w *world) showRegistry(r map[int]snapshot) {
	for v := 1; v <= len(r); v++ {
		w.show(fmt.Sprintf("version %d", v), fmt.Sprintf("%-8s %s", r[v].State, r[v].KeyID))
	}
}

// envelope reads the demo's Secret from etcd.
func (w *world) envelope(ctx context.Context) (envelope.Envelope, error) {
	raw, err := w.etcd.Get(ctx, secretKey)
	if err != nil {
		return envelope.Envelope{}, err
	}
	return envelope.Parse(raw)
}
