package observe

import (
	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/status"
)

// advice is what a reason means and what to do about it, for reports.
type advice struct{ message, nextStep string }

// Reason codes of reports that are not reasons of Status.
const (
	reasonInconsistent  = "status_inconsistent"
	reasonOtherKeyID    = "key_id_differs"
	reasonOtherScope    = "configuration_differs"
	reasonUnexplained   = "unknown"
	seeProbes           = "see status.probe in the provider's log: it names the cause and what to do"
	waitForProbe        = "wait for the next probe; if it does not help, " + seeProbes
	reportDefect        = "restart the provider and report this as a defect"
	checkWhatAnswers    = "check what answers at openbao.address; " + seeProbes
	comparePolicy       = "compare the policy of the provider's token with what 'bao-kms-provider policy openbao' prints"
	checkNetwork        = "check the network, name and certificate of openbao.address from this node"
	restoreStateFiles   = "restore the state file and the checkpoint of this node's newest generation; " + seeProbes
	repairStateStorage  = "repair the storage of the state directory: the provider repeats the save at each probe"
	restoreKeyInOpenBao = "restore the original Transit key with all its versions"
)

// reasonAdvice has an entry for every reason code.
var reasonAdvice = map[status.Reason]advice{
	status.Starting:           {"the provider is starting", "wait until it is ready; if that does not happen, " + seeProbes},
	status.StateUnavailable:   {"there is no usable key registry on this node's disk", "see the provider's log: it names the file and what to restore"},
	status.StatusStale:        {"what is known is older than status.statusMaxStaleness allows", seeProbes},
	status.MetadataUnverified: {"the key's metadata has not been validated", waitForProbe},
	status.MetadataReadFailed: {"the key's metadata could not be read", seeProbes},
	status.UpsertCheckFailed:  {"the mount's upsert setting could not be read", seeProbes},
	status.UpsertAllowed:      {"the Transit mount lets an encrypt request create keys", "set disable_upsert to true in the mount's key configuration"},
	status.ProfileInvalid:     {"the Transit key does not have the required profile", "see status.probe in the provider's log: it names each field and its fix"},
	status.IdentityDrift:      {"a version that this node keeps is gone from OpenBao or has another creation time", restoreKeyInOpenBao},
	status.VersionRollback:    {"OpenBao's latest version is below one that this node knows", restoreKeyInOpenBao},
	status.VersionsBlocked:    {"a minimum in OpenBao forbids decryption of a version that this node keeps", "lower the minimum in OpenBao"},
	status.EncryptionBlocked:  {"min_encryption_version forbids the active version", "lower it in OpenBao, or wait until the pending version is promoted"},
	status.StateSaveFailed:    {"a save of the key registry failed and is outstanding", repairStateStorage},
	status.StateConflict:      {"the files on disk are not what this process last wrote", restoreStateFiles},
	status.DeepProbePending:   {"the active version has not been proved by a round trip", waitForProbe},
	status.DeepProbeFailed:    {"the round trip with the active version failed", seeProbes},
	status.DeepProbeInvalid:   {"the round trip with the active version gave a wrong answer", checkWhatAnswers},
	status.CircuitBreakerOpen: {"OpenBao keeps failing, so it is not asked for a while", checkNetwork},
	status.AuthFailed:         {"the provider could not log in to OpenBao, or its token is not accepted", "check the login material and its role; see auth.login in the provider's log"},
	status.ProbeFailed:        {"a probe failed for a reason that the provider does not know", reportDefect},
}

// classNextStep has what the error class of a failed call says more precisely
// than its reason.
var classNextStep = map[fault.Class]string{
	fault.ClassOpenBaoSealed:      "unseal OpenBao",
	fault.ClassOpenBaoRateLimited: "raise OpenBao's rate limit for this node, or find what uses it up",
	fault.ClassOpenBaoTLS:         "check openbao.caCertFile, openbao.tlsServerName and the certificate that OpenBao presents",
	fault.ClassOpenBaoDNS:         "check the name in openbao.address and this node's resolver",
	fault.ClassOpenBaoConnection:  checkNetwork,
	fault.ClassTimeout:            checkNetwork,
	fault.ClassKeyMissing:         "check transit.keyName and transit.mountPath, and whether the key was deleted",
	fault.ClassPolicyDenied:       comparePolicy,
}

// adviceOn is what to say of a reason that came with an error class, if any.
func adviceOn(reason status.Reason, class fault.Class) advice {
	a, known := reasonAdvice[reason]
	if !known {
		return advice{"the provider gave a reason without an explanation", seeProbes}
	}
	if next, better := classNextStep[class]; better {
		a.nextStep = next
	}
	return a
}
