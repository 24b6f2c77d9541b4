package store

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/baokms/baokms/internal/provider/registry"
)

// checkpointSchema names the checkpoint's format.
const checkpointSchema = "keyregistry.baokms/checkpoint/v1"

// maxCheckpointSize bounds the checkpoint in bytes; a canonical one is below 200.
const maxCheckpointSize = 4096

// checkpoint remembers the newest confirmed generation, so that an older copy
// of the state file is recognised as one.
type checkpoint struct {
	Schema     string `json:"schema"`
	Generation uint64 `json:"generation"`
	Hash       string `json:"hash"`
}

func checkpointOf(r *registry.Registry) checkpoint {
	return checkpoint{checkpointSchema, r.Generation(), r.Hash()}
}

func (c checkpoint) encode() []byte {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		panic("store: a checkpoint cannot be encoded: " + err.Error())
	}
	return append(b, '\n')
}

// decodeCheckpoint accepts only the canonical spelling, as registry.Decode does.
func decodeCheckpoint(doc []byte) (checkpoint, error) {
	var c checkpoint
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(&c); {
	case err != nil:
		return checkpoint{}, errors.New("is not a complete checkpoint document: it is damaged or was cut off")
	case c.Schema != checkpointSchema:
		return checkpoint{}, errors.New("has another schema than " + checkpointSchema)
	case c.Generation < 1 || !registry.IsHash(c.Hash):
		return checkpoint{}, errors.New("has a malformed generation or hash")
	case !bytes.Equal(doc, c.encode()):
		return checkpoint{}, errors.New("is not in its canonical form: it was edited")
	}
	return c, nil
}
