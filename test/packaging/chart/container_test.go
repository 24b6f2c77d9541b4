package chart

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestContainer: the image that deploy makes is the one that the pods are for: their
// arguments are the program's, their user is the image's, and no mount hides it.
func TestContainer(t *testing.T) {
	const binary = "/usr/local/bin/bao-kms-manager"
	lines := strings.Split(read(t, filepath.Join(root, "deploy", "container", "manager.Containerfile")), "\n")
	got := slices.DeleteFunc(lines, func(l string) bool { return l == "" || l[0] == '#' })
	for _, values := range []string{"", everything} {
		all := rendered(t, input{values: values})
		for first, pod := range map[string]corev1.PodSpec{"run": managerPod(t, all, system).Spec, "node-reporter": reporterPod(t, all, system).Spec} {
			want := []string{
				"FROM scratch",
				"COPY bao-kms-manager " + binary,
				fmt.Sprintf("USER %d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup),
				fmt.Sprintf("ENTRYPOINT [%q]", binary),
			}
			if !slices.Equal(got, want) {
				t.Errorf("the image is made by %q, want %q", got, want)
			}
			c := pod.Containers[0]
			if c.Command != nil || c.Args[0] != first {
				t.Errorf("the pod runs %q with %q, want the image's entry point with %s", c.Command, c.Args, first)
			}
			for _, m := range c.VolumeMounts {
				if strings.HasPrefix(binary, m.MountPath+"/") {
					t.Errorf("%s covers the binary", m.MountPath)
				}
			}
		}
	}
}

// TestBinaryNeedsNothing: an image with nothing else runs it only when it asks for no
// loader and no library.
func TestBinaryNeedsNothing(t *testing.T) {
	f, err := elf.Open(managerBinary)
	if err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	defer func() { _ = f.Close() }()
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) != 0 {
		t.Errorf("it needs the libraries %v (%v)", libraries, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a loader")
		}
	}
}
