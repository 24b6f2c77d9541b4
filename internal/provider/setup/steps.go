package setup

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
)

// asProvider runs the binary as the provider's user: the files are that user's,
// and a check made as root would pass where the provider fails.
const asProvider = "runuser -u " + userName + " -- " + binaryPath + " "

// backupDir is where the first copy of the state goes on the node.
const backupDir = "/var/backups/openbao-kms"

// steps are what to do with the files, in this order. The order is the point:
// nothing is encrypted before it can be decrypted everywhere, and nothing that is
// still needed is taken away.
func (o *Options) steps(dir string) []command.Step {
	list := append(o.openBaoSteps(dir), o.nodeSteps()...)
	return append(list, o.apiServerSteps()...)
}

// The files that the operator has, beside those that init writes.
const (
	binaryName   = "bao-kms-provider"
	caName       = "ca.pem"
	issuerName   = "issuer.pem"
	clientCAName = "client-ca.pem"
)

// atHand asks first for what later steps would otherwise stop at.
func (o *Options) atHand(dir string) command.Step {
	credential, verifies, name := "its JWT", "the public key that verifies the nodes' JWTs, as PEM (not needed with an issuer that publishes its keys)", issuerName
	if o.AuthMethod == config.MethodCert {
		credential, verifies, name = "its client certificate and key", "the certificate of the authority that issues the nodes' client certificates", clientCAName
	}
	return command.Step{
		Text: fmt.Sprintf("Put into this directory what init cannot make: the binary; %s, the certificate of the authority that signed OpenBao's; %s, %s. "+
			"Each node needs %s of its own as well", caName, name, verifies, credential),
		Commands: []string{"cd " + shell(dir), "ls -l " + binaryName + " " + caName + " " + name},
	}
}

// openBaoSteps are for the administrator of OpenBao.
func (o *Options) openBaoSteps(dir string) []command.Step {
	environment := []string{"export BAO_ADDR=" + shell(o.Address), "export BAO_CACERT=" + shell(filepath.Join(dir, caName))}
	if o.TLSServerName != hostOf(o.Address) {
		environment = append(environment, "export BAO_TLS_SERVER_NAME="+shell(o.TLSServerName))
	}
	if o.Namespace != "" {
		environment = append(environment, "export BAO_NAMESPACE="+shell(o.Namespace))
	}
	key := shell(o.TransitMount + "/keys/" + o.TransitKey)
	mount := strings.TrimPrefix(o.AuthMount, "auth/")
	steps := []command.Step{o.atHand(dir), {
		Text: "In OpenBao, where the bao command is logged in as an administrator: make the Transit mount and the key. " +
			"The mount is for this purpose alone, the key for this cluster alone; do not rotate the key before the provider has been started once on every node",
		Commands: append(environment,
			"bao secrets enable -path="+shell(o.TransitMount)+" transit",
			"bao write "+shell(o.TransitMount+"/config/keys")+" disable_upsert=true",
			"bao write "+key+" type=aes256-gcm96"),
	}}
	enable := []string{
		"bao policy write " + o.PolicyName + " " + policyFile,
		"bao auth enable -path=" + shell(mount) + " " + o.AuthMethod,
	}
	const life = "  token_ttl=1h token_max_ttl=1h"
	if o.AuthMethod == config.MethodCert {
		return append(steps, command.Step{
			Text: "Also in OpenBao: the policy, and the login by client certificate",
			Commands: append(enable,
				"bao write "+shell(o.AuthMount+"/certs/"+o.AuthRole)+" \\",
				"  certificate=@"+clientCAName+" \\",
				"  allowed_common_names="+shell(o.CertCommonName)+" \\",
				"  token_policies="+o.PolicyName+" \\",
				life),
		})
	}
	return append(steps, command.Step{
		Text: "Also in OpenBao: the policy, and the login by JWT. " +
			"With an issuer that publishes its keys, write oidc_discovery_url=URL or jwks_url=URL in place of jwt_validation_pubkeys. " +
			"When the nodes' JWTs differ in their sub, write bound_claims in place of bound_subject, and each node's own sub into its configuration",
		Commands: append(enable,
			"bao write "+shell(o.AuthMount+"/config")+" \\",
			"  bound_issuer="+shell(o.JWTIssuer)+" jwt_validation_pubkeys=@"+issuerName,
			"bao write "+shell(o.AuthMount+"/role/"+o.AuthRole)+" \\",
			"  role_type=jwt user_claim=sub \\",
			"  bound_audiences="+shell(o.JWTAudience)+" \\",
			"  bound_subject="+shell(o.JWTSubject)+" \\",
			"  token_policies="+o.PolicyName+" \\",
			life),
	})
}

// nodeSteps bring the provider up on one node, then on the others.
func (o *Options) nodeSteps() []command.Step {
	const first = 4 // the number of the first of them, as the reader sees it
	place := []string{
		"install -D -m 0755 " + binaryName + " " + binaryPath,
		"install -D -m 0644 " + sysusersFile + " " + sysusersPath,
		"install -D -m 0644 " + tmpfilesFile + " " + tmpfilesPath,
		"systemd-sysusers " + sysusersPath,
	}
	if !o.ownGroup() {
		place = append(place, "usermod -a -G "+shell(o.SocketGroup)+" "+userName)
	}
	place = append(place, "systemd-tmpfiles --create "+tmpfilesPath)
	where := "On the first control-plane node, as root, in a copy of this directory: the binary, the provider's user, its directories"
	if o.For == StaticPod {
		place = append(place, "id "+userName)
		where += fmt.Sprintf(". The last command must show uid=%d and gid=%d. "+
			"If it shows others, the number belongs to somebody else on this node: userdel %[3]s; groupdel %[3]s, and run init again with a --user-id and a --group-id that are free on every node. "+
			"The binary is for doctor and for the operator's other commands, which run beside the pod", o.UserID, o.GroupID, userName)
	}
	steps := []command.Step{
		{Text: where, Commands: place},
		o.fileStep(),
		{Text: "Ask doctor whether the provider can start. It must report no failure; what does not pass says what to do. What it skips now, because nothing is started yet, is for later",
			Commands: []string{asProvider + "doctor"}},
		o.startStep(),
		{Text: "Back up the state, now and after every rotation: once the key has been rotated, a node cannot start without it. The checkpoint comes first, both stay together, and the copy belongs on another machine",
			Commands: []string{
				"install -d -m 0700 " + backupDir,
				"cd " + stateDir,
				"cp -p key-registry.json.checkpoint " + backupDir + "/",
				"cp -p key-registry.json " + backupDir + "/",
				"cd -",
			}},
	}
	same := "the same files"
	if o.AuthMethod == config.MethodJWT {
		same += " (but for the node's own sub in " + configFile + ", if the JWTs differ in it)"
	}
	compare := command.Step{
		Text: fmt.Sprintf("On every other control-plane node: steps %d to %d with %s and the node's own credential. The last command must print the same two lines on all nodes: the fingerprint of the configuration, and the active version with the hash of its key_id. "+
			"Go on when it does", first, first+len(steps)-1, same),
		Commands: line(asProvider+"rotation-plan |", "grep -E '^  (configuration|active) '"),
	}
	return append(steps, compare)
}

// fileStep puts the configuration and what it names on a node. A credential that
// is not where init would put it is somebody else's to put there.
func (o *Options) fileStep() command.Step {
	const private = "-m 0640 -o root -g " + userName
	step := command.Step{Commands: line("install "+private+" "+configFile, configPath)}
	put := func(how, name, standard, path string) {
		if path == standard {
			step.Commands = append(step.Commands, line("install "+how+" "+name, path)...)
		} else {
			step.Commands = append(step.Commands, "ls -l "+path)
		}
	}
	put("-m 0644", caName, caPath, o.CACertFile)
	what, source := "the node's JWT (jwt)", "The JWT's issuer, and what renews it, must work while this cluster's API server is down: never use this cluster's own service account tokens"
	if o.AuthMethod == config.MethodCert {
		what = "the node's client certificate (client.pem) and its key (client-key.pem)"
		source = "What issues and renews the certificate must work while this cluster's API server is down: never use an issuer that runs in this cluster"
		put("-m 0644", "client.pem", certPath, o.CertFile)
		put(private, "client-key.pem", keyPath, o.CertKeyFile)
	} else {
		put(private, "jwt", jwtPath, o.JWTFile)
	}
	step.Text = "Put in place the configuration, the certificate of the authority that signed OpenBao's (ca.pem), and " + what +
		". All belong to root or " + userName + ": certificates 0644 or narrower, the others 0640 or narrower. Whatever renews a credential keeps owner and mode and replaces the file by a rename. " + source
	return step
}

// startStep starts the provider and looks at it.
func (o *Options) startStep() command.Step {
	step := command.Step{
		Text: "Start the service, and wait for its socket, which is there within a minute. If it is not, the log says which layer failed and what to do: journalctl -u bao-kms-provider",
		Commands: append(line("install -m 0644 "+unitFile, unitPath),
			"systemctl daemon-reload",
			"systemctl enable --now bao-kms-provider"),
	}
	if o.For == StaticPod {
		step = command.Step{
			Text: "Start the pod: kubelet does as soon as the manifest is there. Wait for its socket, which is there about a minute later. If it is not, the log says which layer failed and what to do: crictl logs $(crictl ps -a --name bao-kms-provider -q | head -n 1)",
			Commands: append([]string{"crictl pull " + o.Image},
				line("install -m 0600 "+manifestFile, manifestPath)...),
		}
	}
	// The socket comes after everything that may fail, and needs no listener.
	step.Commands = append(step.Commands,
		line("timeout 90 sh -c", "'until test -S "+socketPath+"; do sleep 1; done'")...)
	if health := reach(o.HealthAddress); health != nil {
		step.Commands = append(step.Commands, "curl -sS --noproxy '*' http://"+health.hostPort()+"/ready; echo")
	}
	step.Commands = append(step.Commands, asProvider+"doctor")
	return step
}
