package diagnose

import (
	"github.com/baokms/baokms/internal/provider/command"
)

// The ids of the checks (design: config-and-cli, doctor's checks). They are
// stable: people search for them.
const (
	configValid       = "config.valid"
	configPermissions = "config.permissions"
	openbaoReachable  = "openbao.reachable"
	openbaoTLS        = "openbao.tls"
	authMaterial      = "auth.material"
	authLogin         = "auth.login"
	authPolicy        = "auth.policy"
	transitKey        = "transit.key"
	transitProfile    = "transit.profile"
	transitUpsert     = "transit.upsert"
	transitRoundTrip  = "transit.roundtrip"
	registryState     = "registry.state"
	registryCheck     = "registry.checkpoint"
	registryMetadata  = "registry.metadata"
	keyIDs            = "keyid.deterministic"
	statusConsistency = "status.consistency"
	socketPath        = "socket.path"
	socketKMS         = "socket.kms"
	encryptionKMS     = "encryptionconfig.provider"
	encryptionPlain   = "encryptionconfig.identity"
	clockSkew         = "clock.skew"
)

// allChecks are doctor's checks, in the order in which they are told.
var allChecks = []string{
	configValid, configPermissions, openbaoReachable, openbaoTLS, authMaterial, authLogin, authPolicy,
	transitKey, transitProfile, transitUpsert, transitRoundTrip,
	registryState, registryCheck, registryMetadata, keyIDs, statusConsistency,
	socketPath, socketKMS, encryptionKMS, encryptionPlain, clockSkew,
}

// table has every check, in the order in which they are made: each after those
// that it needs.
var table = []check{
	{configValid, command.Availability, nil, checkConfigValid},
	{configPermissions, command.Safety, nil, checkConfigPermissions},

	{openbaoReachable, command.Availability, []string{configValid}, checkReachable},
	{openbaoTLS, command.Safety, []string{configValid}, checkTLS},
	{clockSkew, command.Availability, []string{configValid}, checkClock},
	{authMaterial, command.Availability, []string{configValid}, checkMaterial},
	{authLogin, command.Availability, []string{openbaoReachable, openbaoTLS, authMaterial}, checkLogin},
	{authPolicy, command.Safety, []string{authLogin}, checkPolicy},
	{transitKey, command.Availability, []string{authLogin}, checkKey},
	{transitProfile, command.Safety, []string{transitKey}, checkProfile},
	{transitUpsert, command.Safety, []string{authLogin}, checkUpsert},

	{registryState, command.Safety, []string{configValid}, checkState},
	{registryCheck, command.Safety, []string{configValid}, checkCheckpoint},
	{registryMetadata, command.Safety, []string{registryState, transitKey}, checkMetadata},
	{keyIDs, command.Safety, []string{registryState}, checkKeyIDs},
	// Encrypting where an encryption may create a key would break invariant 9.
	{transitRoundTrip, command.Availability, []string{transitKey, transitUpsert, registryState}, checkRoundTrip},

	{socketPath, command.Safety, []string{configValid}, checkSocketPath},
	{socketKMS, command.Availability, []string{configValid}, checkSocketKMS},
	{statusConsistency, command.Safety, []string{registryState, socketKMS}, checkConsistency},

	{encryptionKMS, command.Availability, []string{configValid}, checkEncryptionProvider},
	{encryptionPlain, command.Safety, nil, checkEncryptionIdentity},
}
