package load

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Lane is an operation to measure.
type Lane struct {
	// Name tells it apart from the other lanes.
	Name string
	// Callers are the numbers of callers to measure it with.
	Callers []int
	Do      Operation
}

// Plan says how to measure. Both must be positive.
type Plan struct {
	// Rounds is how often each lane has its turn.
	Rounds int
	// Slice is how long a turn is.
	Slice time.Duration
}

// Cell names one series of slices: a lane with a number of callers.
type Cell struct {
	Lane    string
	Callers int
}

// String is for a person: "Encrypt with 8 callers".
func (c Cell) String() string {
	if c.Callers == 1 {
		return c.Lane + " with 1 caller"
	}
	return fmt.Sprintf("%s with %d callers", c.Lane, c.Callers)
}

// Results holds a series for each cell, one slice a round.
type Results map[Cell][]Slice

// Turns is the number of slices that Measure will make.
func (p Plan) Turns(lanes []Lane) int {
	n := 0
	for _, l := range lanes {
		n += len(l.Callers)
	}
	return n * p.Rounds
}

// Measure gives every lane its turn at every number of callers, round after round. Every other round goes through the lanes backwards, so
// that no lane always comes after the same one. before is told of each turn; it may be nil.
func Measure(ctx context.Context, lanes []Lane, p Plan, before func(Cell)) (Results, error) {
	results := Results{}
	for round := range p.Rounds {
		for _, turn := range turns(lanes, round) {
			if before != nil {
				before(turn.cell)
			}
			// The garbage of the turn before is not this one's.
			runtime.GC()
			s, err := For(ctx, turn.do, turn.cell.Callers, p.Slice)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", turn.cell, err)
			}
			results[turn.cell] = append(results[turn.cell], s)
		}
	}
	return results, nil
}

type turn struct {
	cell Cell
	do   Operation
}

// turns is one round: all lanes with the fewest callers, then all with the next number, so that what is compared lies close together.
func turns(lanes []Lane, round int) []turn {
	var list []turn
	for _, l := range lanes {
		for _, callers := range l.Callers {
			list = append(list, turn{Cell{l.Name, callers}, l.Do})
		}
	}
	slices.SortStableFunc(list, func(a, b turn) int { return a.cell.Callers - b.cell.Callers })
	if round%2 == 1 {
		slices.Reverse(list)
	}
	return list
}
