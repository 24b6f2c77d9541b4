package setup

// Where things are on a control-plane node. They are not flags: units, mounts,
// documentation and people then agree on every node (docs/install.md).
const (
	userName = "openbao-kms" // and the name of its own group

	binaryPath = "/usr/local/bin/bao-kms-provider"

	configDir  = "/etc/openbao-kms"
	configPath = configDir + "/config.yaml"
	caPath     = configDir + "/ca.pem"
	jwtPath    = configDir + "/jwt"
	certPath   = configDir + "/client.pem"
	keyPath    = configDir + "/client-key.pem"

	socketDir  = "/run/openbao-kms"
	socketPath = socketDir + "/kms.sock"

	reportDir  = "/run/openbao-kms-report"
	reportPath = reportDir + "/report.sock"

	stateDir  = "/var/lib/openbao-kms/state"
	statePath = stateDir + "/key-registry.json"

	encryptionDir  = "/etc/kubernetes/openbao-kms"
	encryptionPath = encryptionDir + "/encryption-config.yaml"

	unitPath     = "/etc/systemd/system/bao-kms-provider.service"
	manifestDir  = "/etc/kubernetes/manifests"
	manifestPath = manifestDir + "/bao-kms-provider.yaml"
	sysusersPath = "/etc/sysusers.d/openbao-kms.conf"
	tmpfilesPath = "/etc/tmpfiles.d/openbao-kms.conf"
)

// The names of the files that init writes.
const (
	configFile     = "config.yaml"
	encryptionFile = "encryption-config.yaml"
	prepareFile    = "encryption-config-prepare.yaml"
	policyFile     = "policy.hcl"
	sysusersFile   = "sysusers.conf"
	tmpfilesFile   = "tmpfiles.conf"
	unitFile       = "bao-kms-provider.service"
	manifestFile   = "bao-kms-provider.yaml"
)
