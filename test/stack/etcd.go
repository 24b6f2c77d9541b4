package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// EtcdOptions say how etcd is started.
type EtcdOptions struct {
	// Dir is where its data and log are; it is made when it is not there.
	Dir string
	// Binary is the server; empty takes the one that Find finds.
	Binary string
}

// Etcd is one etcd server on plain HTTP on loopback. Methods that start or stop it must not run at the same time as others.
type Etcd struct {
	*Process
	options EtcdOptions
	ports   []int
}

// StartEtcd starts etcd and waits until it is healthy. It does not wait for the disk with each write: its data survives a stop and a
// kill of the process, which is all that can happen to it here.
func StartEtcd(ctx context.Context, o EtcdOptions) (*Etcd, error) {
	var err error
	if o.Binary, err = need(o.Binary, func(b Binaries) string { return b.Etcd }); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return nil, errors.New("starting etcd: Dir is empty")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making etcd's directory: %w", err)
	}
	e := &Etcd{options: o}
	err = withPorts(2, func(ports []int) error { e.ports = ports; return e.launch(ctx) })
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Etcd) launch(ctx context.Context) error {
	peer := "http://" + loopback(e.ports[1])
	p, err := launch(command{
		name: "etcd", path: e.options.Binary, logFile: filepath.Join(e.options.Dir, "etcd.log"),
		args: []string{
			"--name=node", "--data-dir=" + filepath.Join(e.options.Dir, "data"),
			"--listen-client-urls=" + e.Endpoint(), "--advertise-client-urls=" + e.Endpoint(),
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=node=" + peer,
			"--unsafe-no-fsync", "--log-level=warn",
		},
	})
	if err != nil {
		return err
	}
	e.Process = p
	err = until(ctx, p, "etcd is healthy", func(ctx context.Context) error {
		var health struct {
			Health string `json:"health"`
		}
		if err := e.call(ctx, http.MethodGet, "/health", nil, &health); err != nil {
			return err
		}
		if health.Health != "true" {
			return fmt.Errorf("its health is %q", health.Health)
		}
		return nil
	})
	if err != nil {
		p.Kill()
	}
	return err
}

// Restart stops etcd when it runs and starts it again on the same port with the same data.
func (e *Etcd) Restart(ctx context.Context) error {
	if err := e.Stop(); err != nil {
		return err
	}
	return e.launch(ctx)
}

// Endpoint is etcd's URL, http://127.0.0.1:PORT; it stays the same over restarts.
func (e *Etcd) Endpoint() string { return "http://" + loopback(e.ports[0]) }

// ErrNoKey is what Get answers for a key that is not there.
var ErrNoKey = errors.New("etcd has no such key")

// pair is a key and a value as etcd's JSON gateway has them: base64, which encoding/json makes of bytes.
type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

// Get reads the raw value of a key, as the API server stored it: /registry/secrets/NAMESPACE/NAME for a Secret.
func (e *Etcd) Get(ctx context.Context, key string) ([]byte, error) {
	var answer struct {
		KVs []pair `json:"kvs"`
	}
	if err := e.call(ctx, http.MethodPost, "/v3/kv/range", pair{Key: []byte(key)}, &answer); err != nil {
		return nil, err
	}
	if len(answer.KVs) != 1 {
		return nil, fmt.Errorf("%s: %w", key, ErrNoKey)
	}
	return answer.KVs[0].Value, nil
}

// Keys lists the keys with a prefix, in order.
func (e *Etcd) Keys(ctx context.Context, prefix string) ([]string, error) {
	end := []byte(prefix)
	if len(end) == 0 || end[len(end)-1] == 0xff {
		return nil, errors.New("listing etcd's keys: the prefix must not be empty or end with byte 255")
	}
	end[len(end)-1]++
	in := struct {
		Key      []byte `json:"key"`
		End      []byte `json:"range_end"`
		KeysOnly bool   `json:"keys_only"`
	}{[]byte(prefix), end, true}
	var answer struct {
		KVs []pair `json:"kvs"`
	}
	if err := e.call(ctx, http.MethodPost, "/v3/kv/range", in, &answer); err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(answer.KVs))
	for _, kv := range answer.KVs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

// Put writes a raw value behind the API server's back.
func (e *Etcd) Put(ctx context.Context, key string, value []byte) error {
	return e.call(ctx, http.MethodPost, "/v3/kv/put", pair{Key: []byte(key), Value: value}, nil)
}

func (e *Etcd) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request to etcd: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, e.Endpoint()+path, body)
	if err != nil {
		return fmt.Errorf("making a request to etcd: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("calling etcd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("reading etcd's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answered %d to %s", resp.StatusCode, path)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decoding etcd's answer: %w", err)
	}
	return nil
}
