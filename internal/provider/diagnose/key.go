package diagnose

import (
	"context"

	"github.com/baokms/baokms/internal/provider/command"
)

// keyChecks are those of verify-key. The round trip is not one of them: it would
// change nothing, but verify-key is about what OpenBao says of the key, and must
// be possible where encrypting and decrypting are not.
var keyChecks = []string{
	configValid, authLogin, transitKey, transitProfile, transitUpsert, registryState, registryMetadata, keyIDs,
}

// VerifyKey holds the Transit key against the profile and this node's registry:
// logins and reads only (design: config-and-cli, commands). A key whose metadata
// could not be read makes the result fail; local state is then told and marked as
// not compared.
func VerifyKey(ctx context.Context, o Options) *command.Report {
	e := newExam(o)
	defer e.close()
	return e.sideBySide(run(ctx, e, table, keyChecks)).Seal(command.KindKey)
}
