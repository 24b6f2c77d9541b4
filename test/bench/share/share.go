package share

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
)

// Shares is how much of a profile belongs to each layer, in the profile's unit.
type Shares struct {
	// Self goes by the innermost frame that belongs to a layer.
	Self map[Layer]int64
	// Caused goes by the innermost frame that is not the runtime's: what a layer makes the runtime do, such as an allocation or a write to
	// a socket, is its own. The runtime keeps what runs on its own account: the scheduler, the garbage collector.
	Caused map[Layer]int64
	Total  int64
	// Functions are our own functions by what they cause themselves, without what they cause through other functions of ours, the most
	// first.
	Functions []Function
}

// Function is a function and how much it causes.
type Function struct {
	Name  string
	Value int64
}

// Of attributes a profile's samples of one type, such as "cpu" or "alloc_objects".
func Of(p *profile.Profile, sampleType string) (Shares, error) {
	index := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == sampleType })
	if index < 0 {
		return Shares{}, fmt.Errorf("the profile has no samples of type %s", sampleType)
	}
	s := Shares{Self: map[Layer]int64{}, Caused: map[Layer]int64{}}
	functions := map[string]int64{}
	for _, sample := range p.Sample {
		value := sample.Value[index]
		self, caused, function := attribute(frames(sample))
		s.Self[self] += value
		s.Caused[caused] += value
		s.Total += value
		if caused == Ours {
			functions[function] += value
		}
	}
	if s.Total <= 0 {
		return Shares{}, errors.New("the profile is empty: measure longer")
	}
	for name, value := range functions {
		s.Functions = append(s.Functions, Function{name, value})
	}
	slices.SortFunc(s.Functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	return s, nil
}

// frames are the names of a sample's functions, the innermost first.
func frames(sample *profile.Sample) []string {
	var names []string
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// attribute returns both layers of a stack, and the function that the second one comes from.
func attribute(frames []string) (self, caused Layer, function string) {
	for _, name := range frames {
		layer := layerOf(name)
		if layer == "" {
			continue
		}
		if self == "" {
			self = layer
		}
		if layer != Runtime {
			return self, layer, name
		}
	}
	if self == "" {
		return Other, Other, ""
	}
	return self, self, ""
}

// Percent is value's part of the total, 0 to 100.
func (s Shares) Percent(value int64) float64 { return 100 * float64(value) / float64(s.Total) }

// Difference is what happened between two profiles of one process that count from its start, such as two heap profiles.
func Difference(before, after *profile.Profile) (*profile.Profile, error) {
	negative := before.Copy()
	negative.Scale(-1)
	difference, err := profile.Merge([]*profile.Profile{negative, after})
	if err != nil {
		return nil, fmt.Errorf("comparing two profiles: %w", err)
	}
	return difference, nil
}
