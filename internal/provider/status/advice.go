package status

import "github.com/baokms/baokms/internal/provider/fault"

// Advice is what a reason means and what to do about it, for reports: one line
// each, without a period at the end.
type Advice struct{ Message, NextStep string }

// What several reasons share.
const (
	seeProbes           = "see status.probe in the provider's log: it names the cause and what to do"
	waitForProbe        = "wait for the next probe; if it does not help, " + seeProbes
	checkWhatAnswers    = "check what answers at openbao.address; " + seeProbes
	comparePolicy       = "compare the policy of the provider's token with what 'bao-kms-provider policy openbao' prints"
	checkNetwork        = "check the network, name and certificate of openbao.address from this node"
	restoreStateFiles   = "restore the state file and the checkpoint of this node's newest generation; " + seeProbes
	repairStateStorage  = "repair the storage of the state directory: the provider repeats the save at each probe"
	restoreKeyInOpenBao = "restore the original Transit key with all its versions"

	// ReportDefect follows what cannot be while the provider is free of defects.
	ReportDefect = "restart the provider and report this as a defect"
)

// reasonAdvice has an entry for every reason code.
var reasonAdvice = map[Reason]Advice{
	Starting:           {"the provider is starting", "wait until it is ready; if that does not happen, " + seeProbes},
	StateUnavailable:   {"there is no usable key registry on this node's disk", "see the provider's log: it names the file and what to restore"},
	StatusStale:        {"what is known is older than status.statusMaxStaleness allows", seeProbes},
	MetadataUnverified: {"the key's metadata has not been validated", waitForProbe},
	MetadataReadFailed: {"the key's metadata could not be read", seeProbes},
	UpsertCheckFailed:  {"the mount's upsert setting could not be read", seeProbes},
	UpsertAllowed:      {"the Transit mount lets an encrypt request create keys", "set disable_upsert to true in the mount's key configuration"},
	ProfileInvalid:     {"the Transit key does not have the required profile", "see status.probe in the provider's log: it names each field and its fix"},
	IdentityDrift:      {"a version that this node keeps is gone from OpenBao or has another creation time", restoreKeyInOpenBao},
	VersionRollback:    {"OpenBao's latest version is below one that this node knows", restoreKeyInOpenBao},
	VersionsBlocked:    {"a minimum in OpenBao forbids decryption of a version that this node keeps", "lower the minimum in OpenBao"},
	EncryptionBlocked:  {"min_encryption_version forbids the active version", "lower it in OpenBao, or wait until the pending version is promoted"},
	StateSaveFailed:    {"a save of the key registry failed and is outstanding", repairStateStorage},
	StateConflict:      {"the files on disk are not what this process last wrote", restoreStateFiles},
	DeepProbePending:   {"the active version has not been proved by a round trip", waitForProbe},
	DeepProbeFailed:    {"the round trip with the active version failed", seeProbes},
	DeepProbeInvalid:   {"the round trip with the active version gave a wrong answer", checkWhatAnswers},
	CircuitBreakerOpen: {"OpenBao keeps failing, so it is not asked for a while", checkNetwork},
	AuthFailed:         {"the provider could not log in to OpenBao, or its token is not accepted", "check the login material and its role; see auth.login in the provider's log"},
	ProbeFailed:        {"a probe failed for a reason that the provider does not know", ReportDefect},
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

// AdviceOn is what to say of a reason that came with an error class, if any.
func AdviceOn(reason Reason, class fault.Class) Advice {
	a, known := reasonAdvice[reason]
	if !known {
		return Advice{"the provider gave a reason without an explanation", seeProbes}
	}
	if next, better := classNextStep[class]; better {
		a.NextStep = next
	}
	return a
}

// Known reports whether a text is a reason code.
func Known(reason Reason) bool {
	_, known := reasonAdvice[reason]
	return known
}
