package diagnose

import (
	"context"

	"github.com/baokms/baokms/internal/provider/command"
)

// Doctor makes every check (design: config-and-cli, doctor's checks).
func Doctor(ctx context.Context, o Options) *command.Report {
	e := newExam(o)
	defer e.close()
	e.mustServe = true
	r := &command.Report{Checks: run(ctx, e, table, allChecks)}
	r.GeneratedAt, r.Provider = command.At(e.now()), e.provider()
	return r.Seal(command.KindDoctor)
}
