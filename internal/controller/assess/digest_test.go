package assess

import (
	"strings"
	"testing"
)

var (
	hashA = "sha256:" + strings.Repeat("a", 64)
	hashB = "sha256:" + strings.Repeat("b", 64)
	hashC = "sha256:" + strings.Repeat("c", 64)
	keyK  = strings.Repeat("K", 42) + "A"
)

// TestDigest: the canonical form never changes. The vectors were computed outside
// this program, with another language's JSON and SHA-256.
func TestDigest(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		before         int32
		nodes          map[string]*values
		want           string
	}{
		{"one node", "openbao-kms-workload-a", 3, map[string]*values{"cp-1": {keyK, []int32{1, 2}, hashA, hashB, 8}},
			"sha256:fd244a049472a19498e2ad24d7e0a930106087bc6600d6f5bdb02e11f090ba74"},
		{"three nodes", "openbao-kms-workload-a", 3, map[string]*values{
			"cp-2": {keyK, []int32{2}, hashB, hashC, 8}, "cp-10": {keyK, nil, hashC, hashC, 7}, "cp-1": {keyK, []int32{1, 2}, hashA, hashB, 8}},
			"sha256:17011e6bf5e8e175f518bbed2945801793875fd9f7fc6998bf1386a10226db64"},
		{"characters that JSON or HTML escape", `a<b>&"é"\`, 2147483647, map[string]*values{"cp-1": {keyK, []int32{}, hashA, hashA, 1}},
			"sha256:562b49e31c248f3c38a546d2a9ad0494adb47fe89371038ef2ef30987d26d49c"},
		{"no nodes", "openbao-kms-workload-a", 3, nil,
			"sha256:467e42e8a101544e0becf2a60c3cb180027e94dc6ea3269db3c2d3bcb67aa990"},
	} {
		if got := digest(c.provider, c.before, c.nodes); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDigestSensitivity(t *testing.T) {
	nodes := func() map[string]*values {
		return map[string]*values{"cp-1": {keyK, []int32{1, 2}, hashA, hashB, 8}, "cp-2": {keyK, []int32{1, 2}, hashB, hashC, 8}}
	}
	base := digest("p", 3, nodes())
	seen := map[string]string{base: "the base"}
	for _, c := range []struct {
		name     string
		provider string
		before   int32
		change   func(map[string]*values)
	}{
		{"provider", "q", 3, func(map[string]*values) {}},
		{"beforeVersion", "p", 4, func(map[string]*values) {}},
		{"active key", "p", 3, func(n map[string]*values) { n["cp-1"].activeKeyIDHash = "L" + keyK[1:] }},
		{"a version more", "p", 3, func(n map[string]*values) { n["cp-1"].removed = []int32{1, 2, 3} }},
		{"a version less", "p", 3, func(n map[string]*values) { n["cp-1"].removed = []int32{1} }},
		{"no versions", "p", 3, func(n map[string]*values) { n["cp-1"].removed = nil }},
		{"state hash", "p", 3, func(n map[string]*values) { n["cp-1"].stateHash = hashC }},
		{"next state hash", "p", 3, func(n map[string]*values) { n["cp-1"].nextStateHash = hashC }},
		{"two nodes swapped", "p", 3, func(n map[string]*values) { n["cp-1"], n["cp-2"] = n["cp-2"], n["cp-1"] }},
		{"a node renamed", "p", 3, func(n map[string]*values) { n["cp-3"] = n["cp-2"]; delete(n, "cp-2") }},
		{"a node more", "p", 3, func(n map[string]*values) { n["cp-3"] = n["cp-2"] }},
		{"a node less", "p", 3, func(n map[string]*values) { delete(n, "cp-2") }},
	} {
		n := nodes()
		c.change(n)
		got := digest(c.provider, c.before, n)
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the digest of %s", c.name, other)
		}
		seen[got] = c.name
	}
	n := nodes()
	n["cp-1"].nextGeneration = 99
	if got := digest("p", 3, n); got != base {
		t.Error("the next generation, which the next hash implies, is in the digest")
	}
}

func TestIsStateHash(t *testing.T) {
	for hash, want := range map[string]bool{
		hashA: true, "": false, "sha256:": false, hashA[:70]: false, hashA + "a": false, strings.ToUpper(hashA): false,
		"sha256:" + strings.Repeat("g", 64): false, "sha512:" + strings.Repeat("a", 64): false,
		"sha256:" + strings.Repeat("a", 50) + "; rm -rf /; :": false, " " + hashA: false, hashA + "\n": false,
	} {
		if got := isStateHash(hash); got != want {
			t.Errorf("%q: %t", hash, got)
		}
	}
}
