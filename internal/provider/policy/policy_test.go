package policy_test

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"testing"

	"github.com/baokms/baokms/internal/provider/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGolden(t *testing.T) {
	const file = "testdata/policy.hcl"
	got := policy.OpenBao("transit/prod", "kms-workload-a")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the policy differs from %s; got:\n%s", file, got)
	}
}

// The policy grants exactly what the design page lists, one capability a path.
func TestGrantsNothingElse(t *testing.T) {
	want := map[string]string{
		"m/n/keys/k":            "read",
		"m/n/config/keys":       "read",
		"m/n/encrypt/k":         "update",
		"m/n/decrypt/k":         "update",
		"sys/capabilities-self": "update",
	}
	block := regexp.MustCompile(`(?m)^path "([^"]+)" \{\n  capabilities = \["([a-z]+)"\]\n\}$`)
	text := policy.OpenBao("m/n", "k")
	got := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		got[m[1]] = m[2]
	}
	if !maps.Equal(got, want) {
		t.Errorf("policy grants %v, want %v", got, want)
	}
	if n := len(regexp.MustCompile(`(?m)^path`).FindAllString(text, -1)); n != len(want) {
		t.Errorf("policy has %d path blocks, want %d", n, len(want))
	}
}
