package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/baokms/baokms/internal/provider/command"
)

// restartAPIServer makes kubelet start the API server's container again, which
// reads the EncryptionConfiguration at its start only.
const restartAPIServer = "crictl stop $(crictl ps --name kube-apiserver -q)"

const readyz = "kubectl get --raw '/readyz?verbose' | grep kms"

// installEncryption puts an EncryptionConfiguration where the API server reads
// it. The socket's group, which the provider's user is a member of, may read it:
// an API server that is not root's needs that, and so does doctor.
func (o *Options) installEncryption(name string) []string {
	return line("install -m 0640 -o root -g "+shell(o.view().OwnerGroup)+" "+name, encryptionPath)
}

// apiServerSteps bring the API servers to encrypt, without a moment in which one
// of them cannot read what another one has written.
func (o *Options) apiServerSteps() []command.Step {
	doctor := line(asProvider+"doctor", "--encryption-config "+encryptionPath)
	steps := []command.Step{
		{
			Text: "With several API servers only (with one, go on with the next step): on every node, give kube-apiserver the EncryptionConfiguration that reads what is encrypted and encrypts nothing yet. " +
				"The head of the file shows the flag and the mounts for kube-apiserver's manifest; saving that restarts it. Go on when every node has it",
			Commands: append(o.installEncryption(prepareFile), "sed -n '/^#/p' "+prepareFile, readyz),
		},
		{
			Text:     "On one node after the other: the EncryptionConfiguration that encrypts, held against the provider by doctor. Only encryptionconfig.identity may warn",
			Commands: append(o.installEncryption(encryptionFile), doctor...),
		},
		{
			Text: "On the same node: give kube-apiserver the flag and the mounts that the head of the file shows, if it does not have them yet, and restart it. A static pod restarts when its manifest is saved; " +
				"one whose manifest stays as it is needs the last command. Then the next node",
			Commands: []string{"sed -n '/^#/p' " + encryptionFile, restartAPIServer},
		},
		{
			Text: "Prove it: the API server's check passes, and a new Secret begins with k8s:enc:kms:v2: in etcd and can be read",
			Commands: []string{
				readyz,
				"kubectl create secret generic kms-check --from-literal=word=hello",
				"ETCDCTL_API=3 etcdctl --endpoints=https://127.0.0.1:2379 \\",
				"  --cacert=/etc/kubernetes/pki/etcd/ca.crt \\",
				"  --cert=/etc/kubernetes/pki/etcd/server.crt \\",
				"  --key=/etc/kubernetes/pki/etcd/server.key get --print-value-only \\",
				"  /registry/secrets/default/kms-check | head -c 15; echo",
				"kubectl get secret kms-check -o jsonpath='{.data.word}' | base64 -d; echo",
			},
		},
		o.rewriteStep(),
		{
			Text: "When that is done without an error: take identity out of the file, on one node after the other, and restart its API server. doctor then passes everything",
			Commands: slices.Concat(
				line("sed -i '/^ *- identity: {}$/d'", encryptionPath), doctor, []string{restartAPIServer}),
		},
	}
	if !o.encryptsSecrets() {
		steps[3].Text = "Prove it: the API server's check passes. An object of what is encrypted begins with k8s:enc:kms:v2: in etcd from its next write on"
		steps[3].Commands = []string{readyz}
	}
	return steps
}

// encryptsSecrets tells whether the list of resources covers Secrets.
func (o *Options) encryptsSecrets() bool {
	for _, r := range o.Resources {
		if r == "secrets" || r == "secrets." || r == "*." || r == "*.*" {
			return true
		}
	}
	return false
}

// rewriteStep has every object that is there written again, encrypted.
func (o *Options) rewriteStep() command.Step {
	step := command.Step{Text: "When every API server encrypts: write again what was there before. A conflict means that somebody changed an object meanwhile: repeat the command"}
	for _, r := range o.Resources {
		if strings.HasPrefix(r, "*") {
			step.Text += fmt.Sprintf(". %s stands for many resources: do the same for each that kubectl api-resources shows", r)
			continue
		}
		step.Commands = append(step.Commands, "kubectl get "+strings.TrimSuffix(r, ".")+" -A -o json | kubectl replace -f -")
	}
	return step
}
