package diagnose

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
)

// ends is a check that ends in this way and notes that it was made.
func ends(made *[]string, id string, f finding, needs ...string) check {
	return check{id, command.Safety, needs, func(context.Context, *exam) finding {
		*made = append(*made, id)
		return f
	}}
}

func TestRun(t *testing.T) {
	var made []string
	bad := failed("broken", "it is broken", "mend it")
	table := []check{
		ends(&made, "a", finding{}),
		ends(&made, "b", bad, "a"),
		ends(&made, "c", finding{}, "b", "a"),
		ends(&made, "d", finding{}, "c"),
		ends(&made, "e", warning("odd", "it is odd", "look"), "a"),
		ends(&made, "f", passed("good to know"), "e"),
		ends(&made, "g", skipped("not there"), "a"),
		ends(&made, "h", finding{}, "g", "d"),
		ends(&made, "i", skippedFor("b")),
		ends(&made, "j", finding{}, "i"),
	}
	row := func(id string, r command.Result, reason, message, next string, because ...string) command.Check {
		return command.Check{ID: id, Impact: command.Safety, Result: r, Reason: reason, Message: message, NextStep: next, SkippedBecause: because}
	}
	a := row("a", command.Pass, "", "", "")
	b := row("b", command.Fail, "broken", "it is broken", "mend it")
	e := row("e", command.Warn, "odd", "it is odd", "look")
	cases := []struct {
		name string
		ids  []string
		made []string
		told []command.Check
	}{
		{"one", []string{"a"}, []string{"a"}, []command.Check{a}},
		{"what it needs is made, and told only when it did not pass", []string{"f"}, []string{"a", "e", "f"}, []command.Check{e, row("f", command.Pass, "", "good to know", "")}},
		{"the order is the asker's", []string{"e", "a"}, []string{"a", "e"}, []command.Check{e, a}},
		{"a failure stops what needs it, and the rest goes on", []string{"a", "b", "c", "d", "e"}, []string{"a", "b", "e"}, []command.Check{
			a, b, row("c", command.Skip, "", "", "", "b"), row("d", command.Skip, "", "", "", "b"), e}},
		{"the failure is told though nobody asked for it", []string{"d"}, []string{"a", "b"}, []command.Check{b, row("d", command.Skip, "", "", "", "b")}},
		{"what had nothing to look at is named itself", []string{"h"}, []string{"a", "b", "g"}, []command.Check{b, row("h", command.Skip, "", "", "", "b", "g")}},
		{"a check may be skipped for another by itself", []string{"i", "j"}, []string{"i"}, []command.Check{
			row("i", command.Skip, "", "", "", "b"), row("j", command.Skip, "", "", "", "b")}},
		{"nothing", nil, nil, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			made = nil
			told := run(t.Context(), nil, table, c.ids)
			if !slices.Equal(made, c.made) {
				t.Errorf("made %q, want %q", made, c.made)
			}
			if !reflect.DeepEqual(told, c.told) {
				t.Errorf("told\n%+v, want\n%+v", told, c.told)
			}
		})
	}
}

// TestTheTable: every check of doctor is in it once, and each after what it needs.
func TestTheTable(t *testing.T) {
	var seen []string
	for _, c := range table {
		if slices.Contains(seen, c.id) {
			t.Errorf("%s is in the table twice", c.id)
		}
		if c.impact != command.Safety && c.impact != command.Availability {
			t.Errorf("%s has the impact %q", c.id, c.impact)
		}
		if c.run == nil {
			t.Errorf("%s has nothing to run", c.id)
		}
		for _, need := range c.needs {
			if !slices.Contains(seen, need) {
				t.Errorf("%s needs %s, which does not come before it", c.id, need)
			}
		}
		seen = append(seen, c.id)
	}
	for _, id := range allChecks {
		if !slices.Contains(seen, id) {
			t.Errorf("%s is not in the table", id)
		}
	}
	if len(seen) != len(allChecks) {
		t.Errorf("the table has %d checks, doctor tells %d", len(seen), len(allChecks))
	}
}
