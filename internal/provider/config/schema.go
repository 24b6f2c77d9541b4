package config

import (
	"encoding/json"
	"reflect"

	"github.com/invopop/jsonschema"
)

// Schema returns the JSON Schema of the configuration file, indented, made from
// the same structs and rules that Parse uses. Whatever Parse accepts is valid
// against it; rules between fields and the finer rules of text are Parse's
// alone.
func Schema() ([]byte, error) {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, RequiredFromJSONSchemaTags: true}
	s := r.Reflect(Config{})
	s.Title = "Configuration of bao-kms-provider"
	complete(s, reflect.ValueOf(Default()).Elem())
	if auth, ok := s.Properties.Get("auth"); ok {
		relateMethodSchema(auth)
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// complete adds to the schema of a struct what the library does not know: the
// defaults, and the rules of text and durations.
func complete(s *jsonschema.Schema, defaults reflect.Value) {
	for _, f := range fieldsOf(defaults.Type()) {
		prop, ok := s.Properties.Get(f.name)
		if !ok {
			continue
		}
		value := defaults.Field(f.index)
		if f.isSection() {
			complete(prop, sectionDefaults(value))
			continue
		}
		if f.rule != nil {
			completeText(prop, f)
		}
		if f.longest > 0 {
			prop.Description += " From " + f.shortest.String() + " to " + f.longest.String() + "."
		}
		if !f.required {
			prop.Default = value.Interface()
		}
	}
}

// sectionDefaults are the values that a section has when the file names it and
// nothing in it.
func sectionDefaults(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Pointer {
		return v
	}
	fresh := reflect.New(v.Type().Elem())
	if d, ok := fresh.Interface().(interface{ setDefaults() }); ok {
		d.setDefaults()
	}
	return fresh.Elem()
}

func completeText(s *jsonschema.Schema, f field) {
	s.Pattern = "^(" + f.rule.pattern + ")$"
	if f.optional {
		s.Pattern = "^(" + f.rule.pattern + ")?$"
	}
	if f.rule.maxLength > 0 {
		longest := uint64(f.rule.maxLength)
		s.MaxLength = &longest
	}
}

// relateMethodSchema says that auth.method decides which section there is.
func relateMethodSchema(auth *jsonschema.Schema) {
	isCert := jsonschema.NewProperties()
	isCert.Set("method", &jsonschema.Schema{Const: MethodCert})
	noJWT := jsonschema.NewProperties()
	noJWT.Set("jwt", jsonschema.FalseSchema)
	noCert := jsonschema.NewProperties()
	noCert.Set("cert", jsonschema.FalseSchema)

	auth.If = &jsonschema.Schema{Properties: isCert, Required: []string{"method"}}
	auth.Then = &jsonschema.Schema{Properties: noJWT, Required: []string{"cert"}}
	auth.Else = &jsonschema.Schema{Properties: noCert, Required: []string{"jwt"}}
}

// JSONSchema describes a duration's spelling.
func (Duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
}

// JSONSchema describes a socket mode's spelling.
func (Mode) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: modePattern}
}

// JSONSchema describes a group: text, or a number without quotes.
func (Group) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", Pattern: groupPattern},
		{Type: "integer", Minimum: "0", Maximum: json.Number("4294967294")},
	}}
}
