package config

import (
	"os"
	"testing"
)

// Parse never panics, and whatever it accepts reads back from its own output.
func FuzzParse(f *testing.F) {
	f.Add(document())
	f.Add(document(cert...))
	f.Add(document(everything...))
	for _, raw := range []string{"yes", "0o17", "1_0", "=", "<<", "2001-01-01", "0x_1", ".5", "1e3", "~", "\"\\u2028\"", "\"\\ufeff\"", "'a'", "|\n  a", ">-\n  a b", "!!str a", "+.inf", "1:30", "? a"} {
		f.Add(document("auth.jwt.role=" + raw))
	}
	wrong, err := os.ReadFile("testdata/all-wrong.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wrong)
	f.Add([]byte("{}"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("\xff\xfea\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Parse(data, nil, AllowPlainHTTP); err == nil {
			roundTrip(t, c, AllowPlainHTTP)
			if err := c.Scope().Validate(); err != nil {
				t.Errorf("accepted an identity that is none: %v", err)
			}
		}
	})
}
