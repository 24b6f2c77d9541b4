package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// field is what the tags of one struct field say.
type field struct {
	index       int
	name        string
	typ         reflect.Type
	description string
	required    bool
	optional    bool     // an empty string is accepted
	rule        *rule    // check of a non-empty string, nil for none
	enum        []string // accepted strings, nil for any
	min, max    int      // closed range of an int
	shortest    Duration // closed range of a Duration
	longest     Duration
}

type fieldList []field

// fieldLists remembers what fieldsOf has read, by reflect.Type.
var fieldLists sync.Map

// fieldsOf is the list of a struct type's fields, in their order.
func fieldsOf(t reflect.Type) fieldList {
	if known, ok := fieldLists.Load(t); ok {
		return known.(fieldList)
	}
	list := readTags(t)
	fieldLists.Store(t, list)
	return list
}

// readTags makes the list. A tag that cannot be understood is a mistake in this
// package and panics; the tests visit every field.
func readTags(t reflect.Type) fieldList {
	list := make(fieldList, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		f := field{index: i, name: name, typ: sf.Type, description: sf.Tag.Get("jsonschema_description")}
		for part := range strings.SplitSeq(sf.Tag.Get("jsonschema"), ",") {
			key, value, _ := strings.Cut(part, "=")
			switch key {
			case "required":
				f.required = true
			case "enum":
				f.enum = append(f.enum, value)
			case "minimum":
				f.min = must(strconv.Atoi(value))
			case "maximum":
				f.max = must(strconv.Atoi(value))
			}
		}
		if tag := sf.Tag.Get("rule"); tag != "" {
			ruleName, optional := strings.CutSuffix(tag, ",optional")
			f.optional = optional
			f.rule = rules[ruleName]
			if f.rule == nil {
				panic("config: field " + name + " names the unknown rule " + ruleName)
			}
		}
		if tag := sf.Tag.Get("range"); tag != "" {
			from, to, _ := strings.Cut(tag, "..")
			f.shortest = Duration(must(time.ParseDuration(from)))
			f.longest = Duration(must(time.ParseDuration(to)))
		}
		list = append(list, f)
	}
	return list
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("config: bad struct tag: " + err.Error())
	}
	return v
}

// isSection tells a group of fields from one value.
func (f field) isSection() bool {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

func (l fieldList) named(name string) (field, bool) {
	i := slices.IndexFunc(l, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return l[i], true
}

// lookup finds a field of c, and its value, by its path. The path must exist
// and lead through sections that are not pointers.
func lookup(c *Config, path string) (field, reflect.Value) {
	v := reflect.ValueOf(c).Elem()
	names := strings.Split(path, ".")
	for i, name := range names {
		f, ok := fieldsOf(v.Type()).named(name)
		if !ok {
			panic("config: no field " + path)
		}
		v = v.Field(f.index)
		if i == len(names)-1 {
			return f, v
		}
	}
	panic("config: empty path")
}

var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// set stores a scalar in v by the field's type and checks it. v is changed only
// when there is no flaw.
func (f field) set(v reflect.Value, text, tag string) *flaw {
	fresh := reflect.New(v.Type())
	if s, ok := fresh.Interface().(scalar); ok {
		if fl := s.set(text, tag); fl != nil {
			return fl
		}
		if d, ok := s.(*Duration); ok && (*d < f.shortest || *d > f.longest) {
			return outOfRange(*d < f.shortest, f.shortest, f.longest)
		}
		v.Set(fresh.Elem())
		return nil
	}
	switch v.Kind() {
	case reflect.Bool:
		if tag != "!!bool" || text != "true" && text != "false" {
			return &flaw{"is neither true nor false", "write true or false, without quotes"}
		}
		v.SetBool(text == "true")
	case reflect.Int:
		if tag != "!!int" || !wholeNumber.MatchString(text) {
			return &flaw{"is not a whole number", fmt.Sprintf("write a number from %d to %d, without quotes", f.min, f.max)}
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < f.min || n > f.max {
			return outOfRange(strings.HasPrefix(text, "-") || err == nil && n < f.min, f.min, f.max)
		}
		v.SetInt(int64(n))
	default:
		if fl := f.checkText(text, tag); fl != nil {
			return fl
		}
		v.SetString(text)
	}
	return nil
}

func outOfRange(below bool, least, most any) *flaw {
	fix := fmt.Sprintf("write a value from %v to %v", least, most)
	if below {
		return &flaw{fmt.Sprintf("is below %v", least), fix}
	}
	return &flaw{fmt.Sprintf("is above %v", most), fix}
}

func (f field) checkText(text, tag string) *flaw {
	switch {
	case tag != "!!str":
		return &flaw{"is not text", "put the value in double quotes"}
	case f.enum != nil && !slices.Contains(f.enum, text):
		if len(f.enum) == 1 {
			return &flaw{"must be " + f.enum[0], "write " + f.enum[0]}
		}
		return &flaw{"is none of " + strings.Join(f.enum, ", "), "write one of them"}
	case f.rule == nil, f.optional && text == "":
		return nil
	case text == "":
		return &flaw{"is empty", f.rule.fix}
	}
	if problem := f.rule.check(text); problem != "" {
		return &flaw{problem, f.rule.fix}
	}
	return nil
}

// nearest is the field name that is at most two typing mistakes away, or "".
func (l fieldList) nearest(name string) string {
	best, least := "", 3
	for _, f := range l {
		if d := Distance(strings.ToLower(f.name), strings.ToLower(name)); d < least {
			best, least = f.name, d
		}
	}
	return best
}

// Distance counts the insertions, deletions and replacements of bytes between a
// and b: how nearly a name is another one.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
