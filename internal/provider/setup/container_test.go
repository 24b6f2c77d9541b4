package setup

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// instructions are the lines of a Containerfile, without its comments.
func instructions(t *testing.T, path string) []string {
	t.Helper()
	return slices.DeleteFunc(strings.Split(read(t, path), "\n"), func(l string) bool { return l == "" || l[0] == '#' })
}

// TestContainer: the image that deploy makes is the one that the manifest is for:
// its arguments are the binary's, and its user is the pod's unless that says
// another. The binary is where it is on a node, too.
func TestContainer(t *testing.T) {
	o := asStaticPod(example())
	entry, err := json.Marshal([]string{binaryPath})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"FROM scratch",
		"COPY " + binaryName + " " + binaryPath,
		fmt.Sprintf("USER %d:%d", o.UserID, o.GroupID),
		"ENTRYPOINT " + string(entry),
	}
	if got := instructions(t, "../../../deploy/container/Containerfile"); !slices.Equal(got, want) {
		t.Errorf("the image is made by %q, want %q", got, want)
	}

	dir, _ := made(t, o)
	var pod struct {
		Spec struct {
			Containers []struct {
				Command, Args []string
				VolumeMounts  []struct{ MountPath string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(dir, manifestFile))), &pod); err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	if c.Command != nil || !slices.Equal(c.Args, []string{"serve"}) {
		t.Errorf("the pod runs %q with %q, want the image's entry point with serve", c.Command, c.Args)
	}
	for _, m := range c.VolumeMounts {
		if strings.HasPrefix(binaryPath, m.MountPath+"/") {
			t.Errorf("%s covers the binary", m.MountPath)
		}
	}
}
