package observe

import (
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/status"
)

// advice is what was found and what to do about it, for reports.
type advice struct{ message, nextStep string }

// Reason codes of reports that are not reasons of Status.
const (
	reasonInconsistent = "status_inconsistent"
	reasonOtherKeyID   = "key_id_differs"
	reasonOtherScope   = "configuration_differs"
	reasonUnexplained  = "unknown"
)

// adviceOn is what package status says of a reason of its own.
func adviceOn(reason status.Reason, class fault.Class) advice {
	a := status.AdviceOn(reason, class)
	return advice{a.Message, a.NextStep}
}
