package resilience

import (
	"testing"

	"github.com/baokms/baokms/test/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m, 6) }
