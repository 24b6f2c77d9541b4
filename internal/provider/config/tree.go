package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// read walks a document beside the struct types, stores every sound value in c
// and reports everything else. It returns false when the document could not be
// walked at all; then nothing more can be said about it.
func (r *report) read(data []byte, c *Config) bool {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		r.add("the file", 0, "is empty", "write a configuration into it, or name another file with --config")
		return false
	case err != nil:
		r.syntax(err)
		return false
	}
	if err := dec.Decode(new(yaml.Node)); err == nil {
		r.add("the file", 0, "holds more than one YAML document", "remove everything from the second --- on")
		return false
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return false
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		r.add("the file", 0, "is not a configuration: it is "+kindOf(root), "write fields at its top level, the first is configVersion: "+Version)
		return false
	}
	r.section(root, reflect.ValueOf(c).Elem(), "", 0)
	return true
}

var lineOf = regexp.MustCompile(`line (\d+): `)

// syntax reports a document that is not YAML. The library's text about syntax
// is fixed words, except where it names an anchor.
func (r *report) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := lineOf.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	if strings.Contains(text, "anchor") {
		text = "YAML aliases are not accepted"
	}
	r.add("the file", line, "is not valid YAML: "+text, "correct it near this place")
}

// section reads a mapping into the struct v; line is where its key stands, 0
// for the whole document.
func (r *report) section(n *yaml.Node, v reflect.Value, path string, line int) {
	if n.Kind != yaml.MappingNode {
		r.wrongKind(n, path, line, "is not a group of fields", "write its fields below it, indented")
		return
	}
	if !r.ordinary(n, path) {
		return
	}
	fields := fieldsOf(v.Type())
	given := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ok := r.key(key, path)
		if !ok {
			continue
		}
		p := join(path, name)
		f, ok := fields.named(name)
		if !ok {
			r.unknown(p, name, key.Line, fields)
			continue
		}
		if first, twice := given[name]; twice {
			r.add(p, key.Line, "is given twice", fmt.Sprintf("remove one of them; the first is on line %d", first))
			continue
		}
		given[name] = key.Line
		r.found(p, key.Line)
		r.field(value, f, v.Field(f.index), p, key.Line)
	}
	for _, f := range fields {
		if _, ok := given[f.name]; !ok {
			r.absent(f, join(path, f.name), line)
		}
	}
}

// key returns a mapping key as a field name.
func (r *report) key(k *yaml.Node, path string) (string, bool) {
	if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" || k.Style&yaml.TaggedStyle != 0 || k.Anchor != "" {
		r.add(inSection(path), k.Line, "has a key that is not a plain field name", "write name: value; anchors, aliases, tags and merge keys (<<) are not accepted")
		return "", false
	}
	if !plainName.MatchString(k.Value) {
		// The key could be anything, so it is not repeated.
		r.add(inSection(path), k.Line, "has a key that is not a field name", "remove it; `config schema` lists all fields")
		return "", false
	}
	return k.Value, true
}

func inSection(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// field reads one value by the type of its field.
func (r *report) field(n *yaml.Node, f field, v reflect.Value, path string, line int) {
	switch {
	case f.isSection():
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			if d, ok := v.Interface().(interface{ setDefaults() }); ok {
				d.setDefaults()
			}
			v = v.Elem()
		}
		r.section(n, v, path, line)
	case n.Kind != yaml.ScalarNode:
		r.wrongKind(n, path, line, "is "+kindOf(n)+", not one value", "write "+f.name+": and one value on the same line")
	case n.ShortTag() == "!!null":
		r.add(path, line, "has no value", "write one, or remove the line")
	case r.ordinary(n, path):
		if fl := f.set(v, n.Value, tagOf(n)); fl != nil {
			r.add(path, line, fl.text, fl.fix)
		}
	}
}

// absent reports what is required and not there; a section that is not there
// is judged by what is required in it.
func (r *report) absent(f field, path string, line int) {
	switch {
	case f.typ.Kind() == reflect.Struct && f.isSection():
		for _, sub := range fieldsOf(f.typ) {
			r.absent(sub, join(path, sub.name), line)
		}
	case f.required:
		r.add(path, line, "is missing", "add it: "+f.description)
	}
}

func (r *report) wrongKind(n *yaml.Node, path string, line int, text, fix string) {
	switch {
	case n.Kind == yaml.AliasNode:
		text, fix = "is a YAML alias, which is not accepted", "write the value itself"
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		text, fix = "has no value", "write its fields below it, indented, or remove the line"
	}
	r.add(path, line, text, fix)
}

// ordinary refuses the YAML features that make a document mean more than it
// shows.
func (r *report) ordinary(n *yaml.Node, path string) bool {
	if n.Anchor == "" && n.Style&yaml.TaggedStyle == 0 {
		return true
	}
	r.add(inSection(path), n.Line, "uses a YAML anchor or tag, which is not accepted", "write the value alone")
	return false
}

// unknown reports a field that does not exist, with the one that may be meant.
func (r *report) unknown(path string, name string, line int, fields fieldList) {
	fix := "remove it; `config schema` lists all fields"
	if near := fields.nearest(name); near != "" {
		fix = "write " + near + " if you mean that field, or remove it"
	}
	r.add(path, line, "is not a known field", fix)
	r.problems[len(r.problems)-1].Unknown = true
}

// plainName is what a field name looks like, also a mistyped one.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// tagOf is the tag of a scalar. The words that YAML 1.1 took for true and
// false count as such, although newer readers see text: nobody should have to
// know which reader is used.
func tagOf(n *yaml.Node) string {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&quoted == 0 {
		switch strings.ToLower(n.Value) {
		case "y", "yes", "n", "no", "on", "off":
			return "!!bool"
		}
	}
	return n.ShortTag()
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return "one value"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
