package diagnose

import (
	"testing"

	"github.com/baokms/baokms/internal/provider/command"
)

func TestVerifyKeyReports(t *testing.T) {
	for name, c := range map[string]struct {
		node    func(*story)
		failing []string
	}{
		"agrees":       {func(s *story) { s.rotate(2).probe(3).promote() }, nil},
		"blocked":      {func(s *story) { s.rotate(2).probe(3).promote().minimums(2, 2) }, []string{registryMetadata}},
		"not-compared": {func(s *story) { s.rotate(2).probe(1).unread() }, []string{transitKey}},
		"fresh":        {func(s *story) { s.fresh = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			c.node(s)
			r := s.sideBySide(checked(keyChecks, c.failing...)).Seal(command.KindKey)
			holdsReport(t, "key-"+name, s.exam, r)
			if want := command.Fail; len(c.failing) > 0 && r.Result != want {
				t.Errorf("the result is %s, want %s", r.Result, want)
			}
			if r.Rotation != nil || r.Confidence != "" {
				t.Errorf("verify-key tells of a rotation: %+v", r.Rotation)
			}
		})
	}
}
