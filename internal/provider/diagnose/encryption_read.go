package diagnose

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	encryptionAPIVersion = "apiserver.config.k8s.io/v1"
	encryptionKind       = "EncryptionConfiguration"

	// Defaults of the API server for a kms provider.
	defaultKMSTimeout = 3 * time.Second
	defaultKMSVersion = "v1"
)

// encryptionReader reads a document as strictly as the API server does, and
// collects what it would refuse.
type encryptionReader struct {
	problems []encryptionProblem
}

func (r *encryptionReader) add(at place, text, fix string) {
	r.problems = append(r.problems, encryptionProblem{at, text, fix})
}

func (r *encryptionReader) file(root *yaml.Node) *encryptionFile {
	at := place{"the file", root.Line}
	fields := r.mapping(root, at, "", "apiVersion", "kind", "resources")
	if fields == nil {
		return nil
	}
	for _, want := range r.header(fields) {
		n, given := fields[want.field]
		if !given {
			r.add(place{want.field, 0}, "is missing", "write "+want.field+": "+want.value+" at the top")
		} else if v, ok := r.text(n, place{want.field, n.Line}); ok && v != want.value {
			r.add(place{want.field, n.Line}, "is not "+want.value, "write "+want.field+": "+want.value)
		}
	}
	f := new(encryptionFile)
	for i, n := range r.list(fields["resources"], place{"resources", root.Line}, "write at least one group of resources and providers") {
		f.groups = append(f.groups, r.group(n, fmt.Sprintf("resources[%d]", i)))
	}
	return f
}

// headerField is a field at the top with the value that it must have.
type headerField struct{ field, value string }

// header is what must be at the top: as the manual has it, or the older form that
// the API server still takes.
func (r *encryptionReader) header(fields map[string]*yaml.Node) []headerField {
	older := []headerField{{"apiVersion", "v1"}, {"kind", "EncryptionConfig"}}
	for _, f := range older {
		if n := fields[f.field]; n == nil || n.Kind != yaml.ScalarNode || n.Value != f.value {
			return []headerField{{"apiVersion", encryptionAPIVersion}, {"kind", encryptionKind}}
		}
	}
	return older
}

func (r *encryptionReader) group(n *yaml.Node, path string) encryptionGroup {
	var g encryptionGroup
	fields := r.mapping(n, place{path, n.Line}, path, "resources", "providers")
	if fields == nil {
		return g
	}
	own := path + ".resources"
	for i, n := range r.list(fields["resources"], place{own, n.Line}, "name at least one resource, for example secrets") {
		at := place{fmt.Sprintf("%s[%d]", own, i), n.Line}
		if s, ok := r.text(n, at); ok {
			r.resourceName(s, at)
			g.resources = append(g.resources, parseGroupResource(s))
		}
	}
	r.overlaps(g.resources, place{own, n.Line})
	own = path + ".providers"
	for i, n := range r.list(fields["providers"], place{own, n.Line}, "name at least one provider") {
		g.providers = append(g.providers, r.provider(n, fmt.Sprintf("%s[%d]", own, i)))
	}
	return g
}

func (r *encryptionReader) provider(n *yaml.Node, path string) encryptionProvider {
	at := place{path, n.Line}
	kinds := []string{kindKMS, kindAESGCM, kindAESCBC, kindSecretbox, kindIdentity}
	fields := r.mapping(n, at, path, kinds...)
	switch {
	case fields == nil:
		return encryptionProvider{}
	case len(fields) == 0:
		r.add(at, "names no provider", "write one of kms, aesgcm, aescbc, secretbox and identity: {}")
		return encryptionProvider{}
	case len(fields) > 1:
		r.add(at, "names more than one provider", "begin each provider with a dash of its own")
		return encryptionProvider{}
	}
	for kind, value := range fields {
		path, at := path+"."+kind, place{path + "." + kind, value.Line}
		switch kind {
		case kindKMS:
			return encryptionProvider{kind, r.kms(value, path)}
		case kindIdentity:
			r.mapping(value, at, path)
		default:
			r.keys(value, kind, path)
		}
		return encryptionProvider{kind: kind}
	}
	return encryptionProvider{}
}

func (r *encryptionReader) kms(n *yaml.Node, path string) *kmsEntry {
	k := &kmsEntry{at: place{path, n.Line}, apiVersion: defaultKMSVersion, timeout: defaultKMSTimeout}
	fields := r.mapping(n, k.at, path, "apiVersion", "name", "cachesize", "endpoint", "timeout")
	if fields == nil {
		return k
	}
	at := func(name string) place {
		p := place{path + "." + name, n.Line}
		if f, given := fields[name]; given {
			p.line = f.Line
		}
		return p
	}
	if v, ok := r.optional(fields["apiVersion"], at("apiVersion")); ok && v != "" {
		if k.apiVersion = v; v != "v1" && v != "v2" {
			r.add(at("apiVersion"), "is neither v1 nor v2", "write apiVersion: v2")
		}
	}
	var named, reached bool
	k.name, named = r.optional(fields["name"], at("name"))
	k.endpoint, reached = r.optional(fields["endpoint"], at("endpoint"))
	if named && k.name == "" {
		r.add(at("name"), "is missing", "write a name that never changes, for example the configuration's providerName")
	}
	if reached && k.endpoint == "" {
		r.add(at("endpoint"), "is missing", "write unix:// and then server.socketPath of the provider's configuration")
	}
	if k.apiVersion == kmsVersion && strings.Contains(k.name, ":") {
		r.add(at("name"), "holds a colon", "write a name without one")
	}
	if n, given := fields["timeout"]; given {
		v, ok := r.text(n, at("timeout"))
		d, err := time.ParseDuration(v)
		if k.timeout = d; ok && (err != nil || d <= 0) {
			r.add(at("timeout"), "is not a positive duration", "write a number and a unit, for example 3s")
		}
	}
	if size, given := fields["cachesize"]; given {
		switch n, err := strconv.ParseInt(size.Value, 10, 32); {
		case k.apiVersion == kmsVersion:
			r.add(at("cachesize"), "is not allowed with apiVersion v2", "remove it")
		case size.Kind != yaml.ScalarNode || size.ShortTag() != "!!int" || err != nil || n == 0:
			r.add(at("cachesize"), "is not a whole number other than 0", "remove it")
		}
	}
	return k
}

// keyLengths are the bytes that a key of each kind may have.
var keyLengths = map[string][]int{kindAESGCM: {16, 24, 32}, kindAESCBC: {16, 24, 32}, kindSecretbox: {32}}

// keys looks at a provider with keys of its own. What the keys are is forgotten.
func (r *encryptionReader) keys(n *yaml.Node, kind, path string) {
	fields := r.mapping(n, place{path, n.Line}, path, "keys")
	if fields == nil {
		return
	}
	for i, n := range r.list(fields["keys"], place{path + ".keys", n.Line}, "give at least one key with its name and secret") {
		own := fmt.Sprintf("%s.keys[%d]", path, i)
		key := r.mapping(n, place{own, n.Line}, own, "name", "secret")
		if key == nil {
			continue
		}
		name, ok := r.optional(key["name"], place{own + ".name", n.Line})
		if ok && name == "" {
			r.add(place{own + ".name", n.Line}, "is missing", "name the key")
		}
		secret, ok := r.optional(key["secret"], place{own + ".secret", n.Line})
		if !ok {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(secret)
		if err != nil || !slices.Contains(keyLengths[kind], len(raw)) {
			r.add(place{own + ".secret", n.Line}, "is not a key of the length that this provider takes, in base64", "restore the key: what was encrypted with it needs it")
		}
	}
}

// mapping returns the fields of a group of fields that have a value, nil when it
// is none.
func (r *encryptionReader) mapping(n *yaml.Node, at place, path string, known ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		r.add(at, "is not a group of fields", "write its fields below it, indented")
		return nil
	}
	fields, seen := map[string]*yaml.Node{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		own := at
		own.line = key.Line
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
			r.unknown(key, own, known)
			continue
		case seen[key.Value]:
			own.field = strings.TrimPrefix(path+"."+key.Value, ".")
			r.add(own, "is given twice", "remove one of them")
			continue
		}
		seen[key.Value] = true
		if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!null" {
			fields[key.Value] = value
		}
	}
	return fields
}

// unknown never repeats the field: it could be a value in a wrong place.
func (r *encryptionReader) unknown(key *yaml.Node, at place, known []string) {
	for _, name := range known {
		if strings.EqualFold(key.Value, name) {
			r.add(at, "has a field that differs from "+name+" in upper and lower case", "write "+name)
			return
		}
	}
	fix := "remove it: there are none here"
	if len(known) > 0 {
		fix = "remove it; the fields here are " + strings.Join(known, ", ")
	}
	r.add(at, "has a field that does not exist", fix)
}

// list returns the elements of a list, which must have some.
func (r *encryptionReader) list(n *yaml.Node, at place, fix string) []*yaml.Node {
	switch {
	case n == nil:
		r.add(at, "is missing", fix)
		return nil
	case n.Kind != yaml.SequenceNode:
		r.add(place{at.field, n.Line}, "is not a list", "begin each element with a dash")
		return nil
	case len(n.Content) == 0:
		r.add(place{at.field, n.Line}, "is empty", fix)
	}
	return n.Content
}

// optional is text that may be absent, which is "".
func (r *encryptionReader) optional(n *yaml.Node, at place) (string, bool) {
	if n == nil {
		return "", true
	}
	return r.text(n, at)
}

// text returns a string. The words that YAML 1.1 takes for true and false are
// such to the API server.
func (r *encryptionReader) text(n *yaml.Node, at place) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.add(at, "is not one value", "write one value on the same line")
		return "", false
	}
	plain := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	word := slices.Contains([]string{"y", "yes", "n", "no", "on", "off"}, strings.ToLower(n.Value))
	// A plain text that looks like a date is text to the API server.
	if tag := n.ShortTag(); tag != "!!str" && tag != "!!timestamp" || plain && word {
		r.add(at, "is not text", "put it in double quotes")
		return "", false
	}
	return n.Value, true
}
