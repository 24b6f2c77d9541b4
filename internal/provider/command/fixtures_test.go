package command

import (
	"slices"
	"time"
)

// Hashes as real ones look.
const (
	hash1  = "mFzZ0N1qk0Yb6-6nM7q7hQ4v9ZcVb1mJt3xqkq2Y0aA"
	hash2  = "Qe3y8f6l2Rr0sM4uPqT5kHn7w1Xb_9ZcVdJgLaYtEoI"
	hash3  = "tU7pW2cK9dLxR5vB1nGhS8mJqYeZf3oA6iTlDkCw0sQ"
	state1 = "sha256:3b5d5c3712955042212316173ccf37be800a02a4b2a6a4f0b1d4c3e6f7a8b9c0"
	state2 = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

var someTime = At(time.Date(2026, 11, 12, 4, 5, 6, 0, time.UTC))

// provider is what every report but init's is about.
func provider() *Provider {
	return &Provider{Name: "openbao-kms-a", Version: "v1.0.0", Fingerprint: "cfg1.IVKK8YYolrtlAVA0aLIM1mFSwI8uRSELEqTnlowbMjU"}
}

// doctorChecks are doctor's, all passing, in its order.
func doctorChecks() []Check {
	var checks []Check
	for _, c := range []struct {
		id, message string
		impact      Impact
	}{
		{"config.valid", "", Availability},
		{"config.permissions", "", Safety},
		{"openbao.reachable", "OpenBao 2.4.1, unsealed, active", Availability},
		{"openbao.tls", "the certificate ends at 2027-02-01T00:00:00Z", Safety},
		{"auth.material", "valid until 2026-11-12T05:00:00Z", Availability},
		{"auth.login", "", Availability},
		{"auth.policy", "", Safety},
		{"transit.key", "", Availability},
		{"transit.profile", "", Safety},
		{"transit.upsert", "", Safety},
		{"transit.roundtrip", "version 2", Availability},
		{"registry.state", "generation 7", Safety},
		{"registry.checkpoint", "", Safety},
		{"registry.metadata", "", Safety},
		{"keyid.deterministic", "", Safety},
		{"status.consistency", "", Safety},
		{"socket.path", "", Safety},
		{"socket.kms", "", Availability},
		{"encryptionconfig.provider", "", Availability},
		{"encryptionconfig.identity", "", Safety},
		{"clock.skew", "below 1s", Availability},
	} {
		checks = append(checks, Check{ID: c.id, Result: Pass, Impact: c.impact, Message: c.message})
	}
	return checks
}

// edit changes the check with an id.
func edit(checks []Check, id string, change func(c *Check)) []Check {
	i := slices.IndexFunc(checks, func(c Check) bool { return c.ID == id })
	checks[i].Message = ""
	change(&checks[i])
	return checks
}

func fails(reason, message, next string) func(*Check) {
	return func(c *Check) { c.Result, c.Reason, c.Message, c.NextStep = Fail, reason, message, next }
}

func warns(reason, message, next string) func(*Check) {
	return func(c *Check) { c.Result, c.Reason, c.Message, c.NextStep = Warn, reason, message, next }
}

func skips(message string, because ...string) func(*Check) {
	return func(c *Check) { c.Result, c.Message, c.SkippedBecause = Skip, message, because }
}

func doctor(checks []Check) *Report {
	r := &Report{GeneratedAt: someTime, Provider: provider(), Checks: checks}
	return r.Seal(KindDoctor)
}

func failing() *Report {
	checks := doctorChecks()
	edit(checks, "openbao.tls", fails("openbao_tls_failed", "the certificate that OpenBao presents is for other names than openbao.address",
		"set openbao.tlsServerName to a name that the certificate has, or give OpenBao a certificate for the host in openbao.address"))
	for _, id := range []string{"auth.login", "auth.policy", "transit.key", "transit.upsert"} {
		edit(checks, id, skips("", "openbao.tls"))
	}
	edit(checks, "auth.login", skips("", "openbao.tls"))
	edit(checks, "auth.policy", skips("", "auth.login"))
	edit(checks, "transit.profile", skips("", "transit.key"))
	edit(checks, "transit.roundtrip", skips("", "transit.key", "transit.upsert", "registry.state"))
	edit(checks, "registry.state", fails("state_invalid", "the state file was changed after it was written: its hash does not match",
		"restore the state file and the checkpoint of this node's newest generation from one backup, then run 'runuser -u openbao-kms -- bao-kms-provider doctor' again"))
	edit(checks, "registry.metadata", skips("", "registry.state", "transit.key"))
	edit(checks, "keyid.deterministic", skips("", "registry.state"))
	edit(checks, "socket.kms", skips("no provider is running on this node"))
	edit(checks, "status.consistency", skips("", "registry.state", "socket.kms"))
	edit(checks, "encryptionconfig.identity", warns("identity_last", "data written before encryption is still readable as plain text",
		"rewrite what is encrypted, then take identity out of the providers"))
	return doctor(checks)
}

func beforeFirstStart() *Report {
	checks := doctorChecks()
	edit(checks, "registry.state", func(c *Check) { c.Message = "no state yet: the first start of serve makes it, with version 1" })
	edit(checks, "transit.roundtrip", func(c *Check) { c.Message = "version 1" })
	edit(checks, "socket.kms", skips("no provider is running on this node"))
	edit(checks, "status.consistency", skips("", "socket.kms"))
	edit(checks, "encryptionconfig.provider", skips("not asked for: give --encryption-config"))
	edit(checks, "encryptionconfig.identity", skips("not asked for: give --encryption-config"))
	return doctor(checks)
}

func noConfiguration() *Report {
	checks := []Check{
		{ID: "config.valid", Impact: Availability},
		{ID: "transit.key", Impact: Availability},
	}
	edit(checks, "config.valid", fails("config_invalid", "2 problems: line 12: auth.jwt.mountPath does not begin with auth/; line 20: transit.keyIdScope.clusterId is empty",
		"run 'bao-kms-provider config' for all of them, and correct the file"))
	edit(checks, "transit.key", skips("", "config.valid"))
	return (&Report{GeneratedAt: someTime, Checks: checks}).Seal(KindKey)
}

func yes() *bool { v := true; return &v }

// rotating is a node with a pending version.
func rotating() *Report {
	r := &Report{
		GeneratedAt: someTime, Provider: provider(),
		Checks: []Check{
			{ID: "config.valid", Result: Pass, Impact: Availability},
			{ID: "transit.key", Result: Pass, Impact: Availability},
			{ID: "registry.state", Result: Pass, Impact: Safety, Message: "generation 9"},
			{ID: "registry.metadata", Result: Pass, Impact: Safety},
		},
		Registry: &Registry{Generation: 9, StateHash: state1, ComparedWithTransit: true, Snapshots: []Snapshot{
			{1, hash1, "retired", Blocked}, {2, hash2, "active", Agrees}, {3, hash3, "pending", Agrees},
		}},
		Transit: &Transit{Type: "aes256-gcm96", LatestVersion: 4, MinDecryptionVersion: 2, MinEncryptionVersion: 0, MinAvailableVersion: 0,
			UpsertDisabled: yes(), Versions: []TransitVersion{
				{2, "2026-05-01T10:00:00Z", true}, {3, "2026-11-12T04:03:00Z", true}, {4, "2026-11-12T04:05:00Z", false},
			}},
		Rotation: &Rotation{State: "pending", ActiveVersion: 2, ActiveKeyIDHash: hash2,
			Pending: &Pending{TransitVersion: 3, KeyIDHash: hash3, Observations: 2, Required: 3},
			Ahead: []Event{
				{"version 4 replaces version 3 as the one that waits, with 1 of 3 observations; version 3 stays for decryption", "at the next metadata probe, within 30s"},
				{"version 4 has 3 of 3 observations, and the activation delay of 2m0s begins", "2 probes later, 1m0s after that"},
				{"version 4 is promoted; version 2 stays for decryption", "at the first probe after the delay, at the earliest 3m30s from now"},
				{"what is encrypted is rewritten, and the versions that nothing needs any more are retired", ""},
			}},
	}
	return r.Seal(KindRotationPlan)
}

func stable() *Report {
	r := rotating()
	r.Registry.Snapshots[0].InTransit = Agrees
	r.Transit.LatestVersion, r.Transit.MinDecryptionVersion, r.Transit.AutoRotateSeconds = 3, 1, 2592000
	r.Transit.Versions = []TransitVersion{{1, "2025-11-01T10:00:00Z", true}, {2, "2026-05-01T10:00:00Z", true}, {3, "2026-11-12T04:03:00Z", true}}
	r.Rotation.Pending = &Pending{TransitVersion: 3, KeyIDHash: hash3, Observations: 3, Required: 3, Stable: true, EstimatedPromotion: "2026-11-12T04:06:30Z"}
	r.Rotation.Ahead = r.Rotation.Ahead[3:]
	r.Confidence = "limited"
	r.CannotKnow = []string{
		"whether the other nodes use the same key: compare the active keyIdHash of every node",
		"whether an object in etcd is still encrypted with an older version: that needs evidence of a complete rewrite",
	}
	return r.Seal(KindRotation)
}

func notCompared() *Report {
	r := rotating()
	edit(r.Checks, "transit.key", fails("openbao_sealed", "OpenBao is sealed", "unseal OpenBao, then run this again"))
	edit(r.Checks, "registry.metadata", skips("", "transit.key"))
	r.Transit = nil
	r.Registry.ComparedWithTransit = false
	for i := range r.Registry.Snapshots {
		r.Registry.Snapshots[i].InTransit = ""
	}
	r.Rotation = &Rotation{State: "unknown", ActiveVersion: 2, ActiveKeyIDHash: hash2}
	return r.Seal(KindRotationPlan)
}

func keyReport() *Report {
	r := rotating()
	r.Rotation = nil
	edit(r.Checks, "registry.metadata", fails("identity_drift", "OpenBao tells another creation time for version 2, and does not list version 1",
		"restore the original Transit key with all its versions; change nothing on this node before that is done"))
	r.Registry.Snapshots = []Snapshot{{1, hash1, "retired", Missing}, {2, hash2, "active", Differs}}
	r.Transit.UpsertDisabled, r.Transit.MinDecryptionVersion, r.Transit.LatestVersion = nil, 0, 2
	r.Transit.Versions = []TransitVersion{{2, "2026-05-02T10:00:00Z", true}}
	return r.Seal(KindKey)
}

func planned() *Report {
	r := &Report{
		Provider: provider(),
		Checks: []Check{
			{ID: "transit.key", Result: Pass, Impact: Availability},
			{ID: "retirement.allowed", Result: Pass, Impact: Safety},
		},
		Change: &Change{BeforeVersion: 3, RemovedVersions: []int{1, 2}, ActiveKeyIDHash: hash3, StateHash: state1, NextGeneration: 12, NextStateHash: state2},
		Next: []Step{
			{"Review this plan with the evidence that nothing is encrypted with the versions that go, on every control-plane node", nil},
			{"Stop the provider of this node", []string{"systemctl stop bao-kms-provider"}},
			{"Apply the plan", []string{"runuser -u openbao-kms -- bao-kms-provider retire-versions --before-version 3 --apply --expected-state-hash " + state1}},
			{"Start the provider and wait until it is ready, before you go on to the next node", []string{"systemctl start bao-kms-provider", "curl -fsS http://127.0.0.1:8082/ready"}},
		},
	}
	return r.Seal(KindRetirementPlan)
}

func applied() *Report {
	r := planned()
	r.Checks = append(r.Checks, Check{ID: "plan.reviewed", Result: Pass, Impact: Safety})
	r.Change.Applied, r.Change.Recovery = true, true
	r.Next = r.Next[3:]
	return r.Seal(KindRetirement)
}

func nothingToDo() *Report {
	r := planned()
	r.Checks[1].Message = "no version below 3 is left"
	r.Change.RemovedVersions, r.Change.NextStateHash, r.Change.NextGeneration = []int{}, state1, 11
	r.Next = nil
	return r.Seal(KindRetirementPlan)
}

func refused() *Report {
	r := &Report{
		Provider: provider(),
		Checks: []Check{
			{ID: "state.lock", Result: Pass, Impact: Safety},
			{ID: "plan.reviewed", Result: Fail, Impact: Safety, Reason: "plan_stale",
				Message:  "the registry has changed since the plan: its hash is " + state2,
				NextStep: "run the plan again and have it reviewed: 'bao-kms-provider restore-versions --versions 1,2'"},
		},
		Change: &Change{RestoredVersions: []int{1, 2}, ActiveKeyIDHash: hash3, StateHash: state2},
	}
	return r.Seal(KindRestoration)
}

func restorationPlan() *Report {
	r := planned()
	r.Checks[1].ID = "restoration.allowed"
	r.Change = &Change{RestoredVersions: []int{1}, ActiveKeyIDHash: hash3, StateHash: state1, NextGeneration: 12, NextStateHash: state2}
	r.Next = nil
	return r.Seal(KindRestorationPlan)
}

func initReport() *Report {
	r := &Report{
		Files: []File{
			{"config.yaml", "0640", "/etc/openbao-kms/config.yaml", "the provider's configuration, the same on every control-plane node"},
			{"encryption-config.yaml", "0600", "/etc/kubernetes/encryption-config.yaml", "what kube-apiserver encrypts, and with which provider"},
			{"policy.hcl", "0644", "", "for whoever administers OpenBao"},
		},
		Next: []Step{
			{"In OpenBao, as its administrator: write the policy and forbid that an encrypt request creates a key", []string{
				"bao policy write kms-provider policy.hcl", "bao write transit/config/keys disable_upsert=true"}},
			{"On the node, as root: make the provider's user and its directories, and put the configuration where the provider reads it", []string{
				"systemd-sysusers /etc/sysusers.d/openbao-kms.conf",
				"install -o openbao-kms -g openbao-kms -m 0640 config.yaml /etc/openbao-kms/config.yaml"}},
			{"See whether everything is in place", []string{"runuser -u openbao-kms -- bao-kms-provider doctor"}},
		},
	}
	return r.Seal(KindInit)
}

func benchmarkReport() *Report {
	r := &Report{
		GeneratedAt: someTime, Provider: provider(),
		Benchmark: &Benchmark{PayloadBytes: 32, CPUs: 2, Rows: []BenchmarkRow{
			{Operation: "status", Callers: 1, Socket: Figures{5120, 8531.2, 98, 240, 812, 1930}},
			{"encrypt", 32, 1, Figures{900, 899.6, 1012, 1850, 4210, 9120}, &Figures{1000, 1012.9, 905, 1620, 3999, 8001}, 0.8881},
			{"encrypt", 32, 8, Figures{2900, 2890, 2512, 5850, 14210, 19120}, &Figures{3500, 3512.9, 2105, 4620, 9999, 18001}, 0.8227},
			{"decrypt", 32, 8, Figures{31, 3.1, 1_250_000, 2_340_000, 2_510_000, 2_510_000}, &Figures{40, 4, 812_000, 999_999, 1_000_000, 1_000_000}, 0.775},
		}},
		Next: []Step{{"Compare p99 of encrypt with the timeout of the API server's EncryptionConfiguration", nil}},
	}
	return r.Seal(KindBenchmark)
}

// reports are the golden ones, by file name.
func reports() map[string]*Report {
	return map[string]*Report{
		"doctor-healthy":            doctor(doctorChecks()),
		"doctor-failing":            failing(),
		"doctor-before-first-start": beforeFirstStart(),
		"key-drift":                 keyReport(),
		"key-no-configuration":      noConfiguration(),
		"rotation-plan-pending":     rotating(),
		"rotation-plan-local":       notCompared(),
		"rotation-stable":           stable(),
		"retirement-plan":           planned(),
		"retirement-plan-nothing":   nothingToDo(),
		"retirement-applied":        applied(),
		"restoration-plan":          restorationPlan(),
		"restoration-refused":       refused(),
		"init":                      initReport(),
		"benchmark":                 benchmarkReport(),
	}
}
