package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/baokms/baokms/internal/provider/identity"
)

// Schema names the document's format.
const Schema = "keyregistry.baokms/v1"

// MaxSize is the largest document in bytes that is read or written.
const MaxSize = 1 << 20

const hashPrefix = "sha256:"

// body is everything in a document but its hash. Field order is the canonical
// order.
type body struct {
	Schema       string     `json:"schema"`
	Fingerprint  string     `json:"fingerprint"`
	Generation   uint64     `json:"generation"`
	PreviousHash string     `json:"previousHash"`
	Scope        scope      `json:"scope"`
	Snapshots    []Snapshot `json:"snapshots"`
}

type scope struct {
	ProviderName      string `json:"providerName"`
	ClusterID         string `json:"clusterId"`
	OpenBaoInstanceID string `json:"openbaoInstanceId"`
	OpenBaoNamespace  string `json:"openbaoNamespace"`
	TransitMountID    string `json:"transitMountId"`
	KeyLineageID      string `json:"keyLineageId"`
}

type document struct {
	body
	Hash string `json:"hash"`
}

// encode returns the canonical document and its hash. The document is indented
// for the person who reads it at night; the hash is over the compact form of
// the body, whose spelling encoding/json fixes.
func encode(r *Registry) (encoded []byte, hash string) {
	d := document{body: body{
		Schema:       Schema,
		Fingerprint:  r.fingerprint,
		Generation:   r.generation,
		PreviousHash: r.previousHash,
		Scope:        scope(r.scope),
		Snapshots:    r.snapshots(),
	}}
	compact, err := json.Marshal(d.body)
	if err != nil {
		panic("registry: a document of strings and numbers cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(compact)
	d.Hash = hashPrefix + hex.EncodeToString(sum[:])
	encoded, err = json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic("registry: a document of strings and numbers cannot be encoded: " + err.Error())
	}
	return append(encoded, '\n'), d.Hash
}

// snapshots copies the snapshots out of the entries.
func (r *Registry) snapshots() []Snapshot {
	out := make([]Snapshot, len(r.entries))
	for i, e := range r.entries {
		out[i] = e.Snapshot
	}
	return out
}

// Encode returns the canonical document. The caller must not change it.
func (r *Registry) Encode() []byte { return r.encoded }

// Decode reads a document, checks its hash and every invariant, and returns the
// Registry. Only the canonical spelling is accepted: that refuses unknown and
// duplicate fields, trailing data and edits by hand alike. The error says what
// is wrong with the document and quotes nothing from it but numbers and names
// of fields.
func Decode(doc []byte) (*Registry, error) {
	if len(doc) > MaxSize {
		return nil, fmt.Errorf("is larger than %d bytes", MaxSize)
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, syntaxError(err)
	}
	if d.Schema != Schema {
		return nil, fmt.Errorf("has another schema than %s", Schema)
	}
	r, err := build(content{
		scope:        identity.Scope(d.Scope),
		fingerprint:  d.Fingerprint,
		generation:   d.Generation,
		previousHash: d.PreviousHash,
		snapshots:    d.Snapshots,
	})
	if err != nil {
		return nil, fmt.Errorf("breaks an invariant: %w", err)
	}
	if d.Hash != r.hash {
		return nil, errors.New("does not have the hash that it states: it was changed or damaged")
	}
	if !bytes.Equal(doc, r.encoded) {
		return nil, errors.New("is not in its canonical form: it was edited, or holds duplicate fields or trailing data")
	}
	return r, nil
}

// syntaxError words a decoding error without the document's content.
func syntaxError(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return errors.New("is not a JSON object")
	case errors.As(err, &wrongType):
		// The document's own name for the field, without that of the embedded struct.
		return fmt.Errorf("has a field %s of the wrong type", strings.TrimPrefix(wrongType.Field, "body."))
	case errors.As(err, &syntax):
		return fmt.Errorf("is not JSON at byte %d", syntax.Offset)
	case strings.Contains(err.Error(), "unknown field"):
		return errors.New("has a field that this version does not know")
	}
	return errors.New("is not a complete JSON document: it is empty or was cut off")
}

// IsHash reports whether h is "sha256:" and 64 lower-case hex digits.
func IsHash(h string) bool {
	digits, ok := strings.CutPrefix(h, hashPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return false
	}
	for i := range len(digits) {
		if c := digits[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
