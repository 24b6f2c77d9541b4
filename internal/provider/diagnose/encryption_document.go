package diagnose

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// encryptionDocument is what a reader makes of a file.
type encryptionDocument struct {
	// file is of use only without problems and where nothing is unjudged.
	file     *encryptionFile
	problems []encryptionProblem
	// unjudged is the first thing in it that the API server may well take and that
	// this reader does not follow; nothing else is judged then.
	unjudged *encryptionProblem
	// more: the API server reads the first document alone, and there are others.
	more bool
}

// readEncryption reads an EncryptionConfiguration.
func readEncryption(data []byte) encryptionDocument {
	var r encryptionReader
	root, more := r.document(data)
	if root == nil {
		return encryptionDocument{problems: r.problems}
	}
	if special := specialYAML(root); special != nil {
		return encryptionDocument{unjudged: special}
	}
	f := r.file(root)
	if len(r.problems) == 0 {
		r.rules(f)
	}
	return encryptionDocument{file: f, problems: r.problems, more: more}
}

// specialYAML finds what makes a document mean more than it shows: an alias, a
// merge key, a tag.
func specialYAML(n *yaml.Node) *encryptionProblem {
	at := place{"the file", n.Line}
	switch {
	case n.Kind == yaml.AliasNode:
		return &encryptionProblem{at, "uses a YAML alias", "write the value itself where the alias is, if this is to be checked"}
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!merge":
		return &encryptionProblem{at, "uses a YAML merge key (<<)", "write the fields themselves, if this is to be checked"}
	case n.Style&yaml.TaggedStyle != 0 && !slices.Contains([]string{"!!str", "!!map", "!!seq"}, n.ShortTag()):
		return &encryptionProblem{at, "uses a YAML tag", "write the value without it, if this is to be checked"}
	}
	for _, child := range n.Content {
		if found := specialYAML(child); found != nil {
			return found
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// document returns the root of the first document, nil when there is none, and
// whether another one that holds something, or is not even YAML, comes after it.
func (r *encryptionReader) document(data []byte) (root *yaml.Node, more bool) {
	whole := place{field: "the file"}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		r.add(whole, "is empty", "give the path that kube-apiserver has in --encryption-provider-config")
		return nil, false
	} else if err != nil {
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			whole.line, _ = strconv.Atoi(m[1])
		}
		r.add(whole, "is not valid YAML", "correct it near this line: indentation, quotes and colons")
		return nil, false
	}
	for !more {
		var next yaml.Node
		err := dec.Decode(&next)
		if errors.Is(err, io.EOF) {
			break
		}
		more = err != nil || len(next.Content) > 0 && next.Content[0].ShortTag() != "!!null"
	}
	return doc.Content[0], more
}
