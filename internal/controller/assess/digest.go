package assess

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// values are what retiring does on one node: what a reviewer approves.
type values struct {
	activeKeyIDHash          string
	removed                  []int32 // ascending
	stateHash, nextStateHash string
	// nextGeneration is no part of the digest: nextStateHash implies it.
	nextGeneration int64
}

func (v *values) equal(o *values) bool {
	return v.activeKeyIDHash == o.activeKeyIDHash && slices.Equal(v.removed, o.removed) &&
		v.stateHash == o.stateHash && v.nextStateHash == o.nextStateHash
}

// The canonical form: see the package comment. Order and spelling are fixed
// forever; reviews in Git depend on them.
type (
	canonicalPlan struct {
		ProviderName  string          `json:"providerName"`
		BeforeVersion int32           `json:"beforeVersion"`
		Nodes         []canonicalNode `json:"nodes"`
	}
	canonicalNode struct {
		Name            string  `json:"name"`
		ActiveKeyIDHash string  `json:"activeKeyIdHash"`
		RemovedVersions []int32 `json:"removedVersions"`
		StateHash       string  `json:"stateHash"`
		NextStateHash   string  `json:"nextStateHash"`
	}
)

const hashPrefix = "sha256:"

// digest is that of a retirement over all nodes, whatever order they are in.
func digest(provider string, before int32, nodes map[string]*values) string {
	c := canonicalPlan{ProviderName: provider, BeforeVersion: before, Nodes: []canonicalNode{}}
	for name, v := range nodes {
		c.Nodes = append(c.Nodes, canonicalNode{name, v.activeKeyIDHash, append([]int32{}, v.removed...), v.stateHash, v.nextStateHash})
	}
	slices.SortFunc(c.Nodes, func(a, b canonicalNode) int { return strings.Compare(a.Name, b.Name) })
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	// Strings and numbers into a buffer: it cannot fail.
	_ = enc.Encode(c)
	sum := sha256.Sum256(bytes.TrimSuffix(doc.Bytes(), []byte("\n")))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// isStateHash guards what goes into a command that an operator copies: whoever
// may write a report must not choose it.
func isStateHash(s string) bool {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}
