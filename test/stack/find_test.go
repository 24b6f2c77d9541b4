package stack_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/baokms/baokms/test/stack"
)

func TestFindPrefersTheOpenBaoThatIsNamed(t *testing.T) {
	t.Setenv(stack.OpenBaoEnv, "")
	built, err := stack.Find()
	if err != nil {
		t.Fatal(err)
	}
	if built.TransitIsOpenBao || built.Transit != filepath.Join(built.Root, "bin", "servers", "transit") {
		t.Errorf("without %s Transit is %s, OpenBao %v", stack.OpenBaoEnv, built.Transit, built.TransitIsOpenBao)
	}
	for _, c := range []struct{ name, value, want string }{
		{"absolute", built.Etcd, built.Etcd},
		{"relative to the module", filepath.Join("bin", "servers", "etcd"), built.Etcd},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(stack.OpenBaoEnv, c.value)
			got, err := stack.Find()
			if err != nil || got.Transit != c.want || !got.TransitIsOpenBao {
				t.Errorf("Transit is %s, OpenBao %v, %v, want %s", got.Transit, got.TransitIsOpenBao, err, c.want)
			}
		})
	}
	t.Setenv(stack.OpenBaoEnv, "bin/no-bao")
	if _, err := stack.Find(); err == nil || !strings.Contains(err.Error(), stack.OpenBaoEnv) {
		t.Errorf("error = %v, want one that names %s", err, stack.OpenBaoEnv)
	}
}
