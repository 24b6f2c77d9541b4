package diagnose

import (
	"context"
	"slices"

	"github.com/baokms/baokms/internal/provider/command"
)

// check is one row of the table.
type check struct {
	id     string
	impact command.Impact
	// needs are the checks that must not have failed or been skipped before this
	// one means anything. They come earlier in the table.
	needs []string
	run   func(ctx context.Context, e *exam) finding
}

// finding is how a check ended. The zero value is a pass with nothing to add.
type finding struct {
	result                    command.Result // "" is a pass
	reason, message, nextStep string
	because                   []string // ids of other checks, of a skipped one
}

// passed is a pass that has something to add.
func passed(message string) finding { return finding{result: command.Pass, message: message} }

// skipped is a check that was not asked for, or has nothing to look at.
func skipped(message string) finding { return finding{result: command.Skip, message: message} }

// skippedFor is a check that cannot be judged because of what others found.
func skippedFor(ids ...string) finding { return finding{result: command.Skip, because: ids} }

func warning(reason, message, nextStep string) finding {
	return finding{command.Warn, reason, message, nextStep, nil}
}

func failed(reason, message, nextStep string) finding {
	return finding{command.Fail, reason, message, nextStep, nil}
}

// run makes the checks with these ids, and those that they need. It returns the
// named ones in their order, and before them those of the others that failed or
// warn.
func run(ctx context.Context, e *exam, table []check, ids []string) []command.Check {
	wanted := slices.Clone(ids)
	for i := len(table) - 1; i >= 0; i-- { // needs come earlier
		if slices.Contains(wanted, table[i].id) {
			wanted = append(wanted, table[i].needs...)
		}
	}
	ended := map[string]command.Check{}
	var told []command.Check
	for _, c := range table {
		if !slices.Contains(wanted, c.id) {
			continue
		}
		done := c.examine(ctx, e, ended)
		ended[c.id] = done
		if !slices.Contains(ids, c.id) && (done.Result == command.Fail || done.Result == command.Warn) {
			told = append(told, done)
		}
	}
	for _, id := range ids {
		told = append(told, ended[id])
	}
	return told
}

// examine makes one check, unless one that it needs has not passed.
func (c check) examine(ctx context.Context, e *exam, ended map[string]command.Check) command.Check {
	done := command.Check{ID: c.id, Impact: c.impact}
	for _, id := range c.needs {
		done.SkippedBecause = append(done.SkippedBecause, obstacle(ended[id])...)
	}
	slices.Sort(done.SkippedBecause)
	done.SkippedBecause = slices.Compact(done.SkippedBecause)
	if len(done.SkippedBecause) > 0 {
		done.Result = command.Skip
		return done
	}
	f := c.run(ctx, e)
	if f.result == "" {
		f.result = command.Pass
	}
	done.Result, done.Reason, done.Message, done.NextStep, done.SkippedBecause = f.result, f.reason, f.message, f.nextStep, f.because
	return done
}

// obstacle is what keeps those that need a check from being made: the check
// itself, or what it was skipped for. Nothing when it passed or warns.
func obstacle(c command.Check) []string {
	switch {
	case c.Result == command.Pass, c.Result == command.Warn:
		return nil
	case len(c.SkippedBecause) > 0:
		return c.SkippedBecause
	}
	return []string{c.ID}
}
