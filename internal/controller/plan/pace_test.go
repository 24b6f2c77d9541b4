package plan

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/baokms/baokms/api/v1alpha1"
)

func TestPace(t *testing.T) {
	p := newPace()
	rest := func(plan string, after, want time.Duration) {
		t.Helper()
		if got := p.rest(plan, noon.Add(after)); got != want {
			t.Errorf("after %s, %s rests for %s, want %s", after, plan, got, want)
		}
	}
	rest("large", 0, 0)
	p.wrote("large", 1000, noon)
	p.wrote("small", 3, noon)
	rest("large", 0, 20*time.Second)
	rest("large", 19*time.Second, time.Second)
	rest("large", 20*time.Second, 0)
	rest("small", 0, 60*time.Millisecond)
	rest("small", time.Second, 0)
	rest("other", 0, 0)
	// What was refused for its size was as large as what replaced it is small.
	p.wrote("large", 0, noon.Add(time.Second))
	rest("large", time.Second, 19*time.Second)
	p.forget("large")
	rest("large", 0, 0)
	if len(p.free) != 1 {
		t.Errorf("it remembers %v", p.free)
	}
}

func TestTooLarge(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("kmsrotationplans").GroupResource()
	cases := []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"the API server", apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		{"etcd", apierrors.NewInternalError(errors.New("etcdserver: request is too large")), true},
		{"another failure of the server", apierrors.NewInternalError(errors.New("etcdserver: request timed out")), false},
		{"a conflict", apierrors.NewConflict(resource, "p", errors.New("too large")), false},
	}
	for _, c := range cases {
		if got := tooLarge(c.err); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
