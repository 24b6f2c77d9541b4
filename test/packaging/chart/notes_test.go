package chart

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/goldentest"
)

// TestNotes: what helm install prints, for each kind of installation.
func TestNotes(t *testing.T) {
	image := "image: {repository: registry.example.net/bao-kms-manager, tag: v1.2.3}"
	for name, in := range map[string]input{
		"default":         {},
		"own":             {release: "keys-of-a", namespace: "keys", values: image + "\nreporter: {reportSocket: /srv/keys/report/r.sock, socketGroupID: 990}\ncrds: {keep: false}"},
		"management":      {values: image + "\nreporter: {enabled: false}\nremoteReporters: {enabled: true}"},
		"no-reporters":    {values: image + "\nreporter: {enabled: false}"},
		"reporters":       {values: image + "\nmanager: {enabled: false}\ncrds: {install: false}"},
		"remote-reporter": {values: image + "\nmanager: {enabled: false}\ncrds: {install: false}\nreporter: {kubeconfig: {secretName: management}}"},
		"remote-manager":  {values: image + "\nmanager: {kubeconfig: {secretName: workload}}\ncrds: {install: false}\nreporter: {enabled: false}"},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := render(t, in)
			if err != nil {
				t.Fatal(err)
			}
			goldentest.Check(t, filepath.Join("testdata", "notes-"+name+".txt"), made.Info.Notes)
			for line := range strings.Lines(made.Info.Notes) {
				if line = strings.TrimSuffix(line, "\n"); len(line) > 100 || strings.TrimRight(line, " ") != line {
					t.Errorf("a line too long, or with blanks at its end: %q", line)
				}
			}
		})
	}
}
