package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/baokms/baokms/internal/provider/benchmark/load"
)

const (
	// seedSize is the size of the API server's seed, in bytes: all that it has encrypted by a provider.
	seedSize = 32
	// warmUp is how often each lane is called before anything counts: connections are made and pools filled.
	warmUp = 300
	// memoryCalls is after how many Encrypts and Decrypts the provider's memory is judged.
	memoryCalls = 100_000
)

// measurement is a run while it is measuring.
type measurement struct {
	*world
	o       options
	bare    *way
	node    kmsClient
	empty   kmsClient
	example canned
	results load.Results
}

// measure starts everything, measures, and returns what came out.
func measure(ctx context.Context, w *world, o options) (*report, error) {
	m := &measurement{world: w, o: o}
	busy, err := loadAverage()
	if err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context) error{w.startTransit, w.startNode, m.connect, m.startEmpty, m.warm, m.takeTurns} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	calls, resident, err := m.memory(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := measureAllocations(ctx, w)
	if err != nil {
		return nil, err
	}
	return newReport(facts{
		results:     m.results,
		plan:        load.Plan{Rounds: o.rounds, Slice: o.slice},
		quick:       o.quick,
		openBao:     w.transit.IsOpenBao(),
		cpus:        runtime.GOMAXPROCS(0),
		calls:       calls,
		resident:    resident,
		allocations: counts,
		load:        busy,
	}), nil
}

// connect makes the two clients and takes one answer of the provider as the example for all lanes.
func (m *measurement) connect(ctx context.Context) (err error) {
	if m.bare, err = connect(ctx, m.files.Config, nil); err != nil {
		return err
	}
	m.atEnd(func() error { m.bare.Close(); return nil })
	if m.node, err = m.dial(m.files.Socket); err != nil {
		return err
	}
	m.example, err = exampleOf(ctx, m.node)
	return err
}

// exampleOf has a provider encrypt a random seed.
func exampleOf(ctx context.Context, k kmsClient) (canned, error) {
	plaintext := make([]byte, seedSize)
	_, _ = rand.Read(plaintext) // never fails
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := k.Encrypt(ctx, requestUID, plaintext)
	if err != nil {
		return canned{}, fmt.Errorf("the provider's first Encrypt: %w", err)
	}
	return canned{KeyID: resp.KeyId, Plaintext: plaintext, Ciphertext: resp.Ciphertext, Annotations: resp.Annotations}, nil
}

func (m *measurement) startEmpty(ctx context.Context) error {
	path := m.path("empty.sock")
	if _, err := m.startChild(ctx, order{Do: serveEmpty, Socket: path, Canned: m.example}); err != nil {
		return err
	}
	var err error
	m.empty, err = m.dial(path)
	return err
}

// lanes are all that is measured.
func (m *measurement) lanes() ([]load.Lane, error) {
	binding, err := m.bare.binding()
	if err != nil {
		return nil, err
	}
	if binding.KeyID() != m.example.KeyID {
		return nil, errors.New("the provider's key_id is not the one that its configuration and the key give")
	}
	e := m.example
	return []load.Lane{
		{Name: transitEncrypt, Callers: callers, Do: bareEncrypt(m.bare.Transit, binding, e.Plaintext)},
		{Name: providerEncrypt, Callers: callers, Do: m.node.encrypt(e.Plaintext, e.KeyID)},
		{Name: emptyEncrypt, Callers: callers, Do: m.empty.encrypt(e.Plaintext, e.KeyID)},
		{Name: transitDecrypt, Callers: callers, Do: bareDecrypt(m.bare.Transit, binding, e)},
		{Name: providerDecrypt, Callers: callers, Do: m.node.decrypt(e)},
		{Name: emptyDecrypt, Callers: callers, Do: m.empty.decrypt(e)},
		{Name: providerStatus, Callers: statusCallers, Do: m.node.status(e.KeyID)},
		{Name: emptyStatus, Callers: statusCallers, Do: m.empty.status(e.KeyID)},
	}, nil
}

func (m *measurement) warm(ctx context.Context) error {
	m.phase("warming up")
	lanes, err := m.lanes()
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if _, err := load.Times(ctx, l.Do, mostCallers, warmUp); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	return nil
}

func (m *measurement) takeTurns(ctx context.Context) error {
	lanes, err := m.lanes()
	if err != nil {
		return err
	}
	plan := load.Plan{Rounds: m.o.rounds, Slice: m.o.slice}
	total, done := plan.Turns(lanes), 0
	m.phase(fmt.Sprintf("measuring: %d turns of %v, about %v", total, plan.Slice, (time.Duration(total) * plan.Slice).Round(time.Second)))
	m.results, err = load.Measure(ctx, lanes, plan, func(next load.Cell) {
		m.progress(done, total, fmt.Sprintf("%s, %d callers", next.Lane, next.Callers))
		done++
	})
	return err
}

// memory brings the provider to memoryCalls Encrypts and Decrypts, not in a quick run, and returns how many it had and its resident memory
// after them.
func (m *measurement) memory(ctx context.Context) (calls int, resident int64, err error) {
	calls = 1 + 2*warmUp
	for _, n := range callers {
		for _, lane := range []string{providerEncrypt, providerDecrypt} {
			calls += m.results.Summary(load.Cell{Lane: lane, Callers: n}).Calls
		}
	}
	if more := memoryCalls - calls; more > 0 && !m.o.quick {
		m.phase(fmt.Sprintf("%d more calls, for the provider's memory", more))
		both := alternating(m.node.encrypt(m.example.Plaintext, m.example.KeyID), m.node.decrypt(m.example))
		if _, err := load.Times(ctx, both, mostCallers, more); err != nil {
			return 0, 0, err
		}
		calls = memoryCalls
	}
	resident, err = residentMemory(m.world.node.Pid())
	return calls, resident, err
}
