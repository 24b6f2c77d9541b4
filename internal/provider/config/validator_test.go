package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// known are the keywords that violation understands, and those that say
// nothing about a document. A schema with another keyword fails the test, so
// that no rule of it goes unchecked.
var known = []string{"$schema", "title", "description", "default", "type", "properties", "required", "additionalProperties",
	"enum", "const", "pattern", "minimum", "maximum", "maxLength", "anyOf", "if", "then", "else"}

// violation says how a document breaks a JSON Schema, "" when it does not. It
// knows the part of the language that the configuration's schema uses.
func violation(t *testing.T, schema, doc any, at string) string {
	t.Helper()
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			return at + ": must not be there"
		}
		return ""
	}
	s := schema.(map[string]any)
	for keyword := range s {
		if !slices.Contains(known, keyword) {
			t.Fatalf("%s: the schema uses %q, which this test does not know", at, keyword)
		}
	}
	if typ, ok := s["type"]; ok && typ != typeOf(doc) && (typ != "number" || typeOf(doc) != "integer") {
		return fmt.Sprintf("%s: is %s, not %v", at, typeOf(doc), typ)
	}
	if enum, ok := s["enum"].([]any); ok && !slices.ContainsFunc(enum, func(v any) bool { return reflect.DeepEqual(v, doc) }) {
		return at + ": not in enum"
	}
	if want, ok := s["const"]; ok && !reflect.DeepEqual(want, doc) {
		return at + ": not const"
	}
	if text, ok := doc.(string); ok {
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(text) {
			return at + ": does not match the pattern"
		}
		if m, ok := s["maxLength"].(float64); ok && utf8.RuneCountInString(text) > int(m) {
			return at + ": too long"
		}
	}
	if n, ok := doc.(float64); ok {
		if least, ok := s["minimum"].(float64); ok && n < least {
			return at + ": too small"
		}
		if most, ok := s["maximum"].(float64); ok && n > most {
			return at + ": too large"
		}
	}
	if subs, ok := s["anyOf"].([]any); ok && !slices.ContainsFunc(subs, func(sub any) bool { return violation(t, sub, doc, at) == "" }) {
		return at + ": matches nothing of anyOf"
	}
	if v := objectViolation(t, s, doc, at); v != "" {
		return v
	}
	if cond, ok := s["if"]; ok {
		branch := "else"
		if violation(t, cond, doc, at) == "" {
			branch = "then"
		}
		if sub, ok := s[branch]; ok {
			return violation(t, sub, doc, at)
		}
	}
	return ""
}

func objectViolation(t *testing.T, s map[string]any, doc any, at string) string {
	t.Helper()
	object, ok := doc.(map[string]any)
	if !ok {
		return ""
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Sprintf("%s: %v is missing", at, name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, value := range object {
		sub, ok := properties[name]
		if !ok {
			if s["additionalProperties"] == false {
				return at + ": " + name + " is not a property"
			}
			continue
		}
		if v := violation(t, sub, value, join(at, name)); v != "" {
			return v
		}
	}
	return ""
}

func typeOf(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if x == math.Trunc(x) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// made is the schema, made once: the tests only read it.
var made = sync.OnceValues(Schema)

// schema is the schema as a generic value.
func schema(t *testing.T) map[string]any {
	t.Helper()
	b, err := made()
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// generic decodes a document the way a schema validator would; ok is false for
// one that is not even YAML, or has a field twice.
func generic(doc []byte) (v any, ok bool) {
	b, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, false
	}
	return v, json.Unmarshal(b, &v) == nil
}
