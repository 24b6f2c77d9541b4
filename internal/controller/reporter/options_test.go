package reporter

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestOptions(t *testing.T) {
	var none client.WithWatch
	c := fake.NewFakeClient()
	cases := []struct {
		name  string
		o     Options
		words string // of the error; empty: none
		every time.Duration
		beat  time.Duration
	}{
		{"defaults", Options{Node: "cp-1", Socket: "/s", Client: c}, "", 30 * time.Second, 2 * time.Minute},
		{"own", Options{Node: "cp-1.example", Socket: "/s", Client: c, Interval: time.Second, Heartbeat: time.Second}, "", time.Second, time.Second},
		{"long interval", Options{Node: "cp-1", Socket: "/s", Client: c, Interval: time.Hour}, "", time.Hour, time.Hour},
		{"no node", Options{Socket: "/s", Client: c}, "node name cannot be an object's name", 0, 0},
		{"a node that is a path", Options{Node: "../cp-1", Socket: "/s", Client: c}, "node name cannot be an object's name", 0, 0},
		{"relative socket", Options{Node: "cp-1", Socket: "s", Client: c}, "not absolute", 0, 0},
		{"socket of 108 bytes", Options{Node: "cp-1", Socket: "/" + strings.Repeat("s", 107), Client: c}, "longer than 107 bytes", 0, 0},
		{"no client", Options{Node: "cp-1", Socket: "/s", Client: none}, "no Kubernetes client", 0, 0},
		{"negative interval", Options{Node: "cp-1", Socket: "/s", Client: c, Interval: -1}, "interval is negative", 0, 0},
		{"heartbeat below", Options{Node: "cp-1", Socket: "/s", Client: c, Heartbeat: time.Second}, "heartbeat of 1s is shorter than the interval of 30s", 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := New(c.o)
			if c.words != "" {
				if err == nil || r != nil || !strings.Contains(err.Error(), c.words) {
					t.Fatalf("error %v, want %q", err, c.words)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.options.Interval != c.every || r.options.Heartbeat != c.beat || r.options.Logger == nil {
				t.Errorf("interval %s, heartbeat %s", r.options.Interval, r.options.Heartbeat)
			}
			if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "since the start") {
				t.Errorf("ready before it ran: %v", err)
			}
			if r.NeedLeaderElection() {
				t.Error("a reporter would wait for leadership")
			}
		})
	}
}
