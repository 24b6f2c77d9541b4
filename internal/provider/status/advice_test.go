package status

import (
	"strings"
	"testing"

	"github.com/baokms/baokms/internal/provider/fault"
)

func TestAdviceOn(t *testing.T) {
	for reason, a := range reasonAdvice {
		if !Known(reason) || a.Message == "" || a.NextStep == "" || strings.ContainsAny(a.Message+a.NextStep, "\n") ||
			strings.HasSuffix(a.Message, ".") || strings.HasSuffix(a.NextStep, ".") {
			t.Errorf("%s: %+v", reason, a)
		}
		if got := AdviceOn(reason, ""); got != a {
			t.Errorf("%s without a class: %+v", reason, got)
		}
		if got := AdviceOn(reason, fault.ClassOpenBaoSealed); got.Message != a.Message || got.NextStep != "unseal OpenBao" {
			t.Errorf("%s while OpenBao is sealed: %+v", reason, got)
		}
	}
	for class, step := range classNextStep {
		if class == "" || step == "" {
			t.Errorf("%q: %q", class, step)
		}
	}
	// What anything else answered is not repeated.
	const other Reason = "made_up"
	if a := AdviceOn(other, ""); Known(other) || a.Message == "" || a.NextStep == "" || strings.Contains(a.Message+a.NextStep, string(other)) {
		t.Errorf("%+v", a)
	}
}
