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

// askItsOwn asks this node's API server, and not the one that a load balancer
// picks. Its certificate has the name kubernetes, and hardly ever 127.0.0.1.
const askItsOwn = "kubectl --server=https://127.0.0.1:6443 --tls-server-name=kubernetes"

func readyz() []string { return line(askItsOwn, "get --raw '/readyz?verbose' | grep kms") }

// manifests says how to change kube-apiserver's manifest without a stray pod.
const manifests = "add the items to the lists that are there, and keep any copy of the manifest outside its directory, where kubelet would run the copy, too"

// kubeadm says what may be otherwise on another kind of cluster.
const kubeadm = "Port 6443 and the name kubernetes are kubeadm's"

// keep is the first that is said of the file: an API server that encrypts already
// never becomes ready without the providers of what it has stored. place is where
// in the list of that file this provider goes.
func keep(place string) string {
	return "If kube-apiserver had --encryption-provider-config before these steps, which the first command tells, do not replace that file: add this provider to it, " + place +
		", and keep every provider that is there until everything has been rewritten. kube-apiserver then lacks the mount of the socket's directory only, and doctor wants the path of that file. Otherwise"
}

// alreadyEncrypts shows whether the API server of a node has such a file.
func alreadyEncrypts() []string {
	return line("grep -n encryption-provider-config", manifestDir+"/kube-apiserver.yaml")
}

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
			Text: keep("as the last") + ", and with several API servers only (with one, go on with the next step): on one node after the other, give kube-apiserver the EncryptionConfiguration that reads what is encrypted and encrypts nothing yet. " +
				"The head of the file shows the flag and the mounts for kube-apiserver's manifest: " + manifests + ". Saving it restarts the API server, whose check the last command asks for at this node. When it passes, the next node; go on when every node has it. " + kubeadm,
			Commands: slices.Concat(alreadyEncrypts(), o.installEncryption(prepareFile), []string{"sed -n '/^#/p' " + prepareFile}, readyz()),
		},
		{
			Text:     keep("as the first once every API server has it") + ", on one node after the other: the EncryptionConfiguration that encrypts, held against the provider by doctor. Only encryptionconfig.identity may warn",
			Commands: slices.Concat(alreadyEncrypts(), o.installEncryption(encryptionFile), doctor),
		},
		{
			Text: "On the same node: give kube-apiserver the flag and the mounts that the head of the file shows, if it does not have them yet (" + manifests + "), and restart it. A static pod restarts when its manifest is saved; " +
				"one whose manifest stays as it is needs the crictl command. When its check passes again, which the last command asks for at this node, the next node. " + kubeadm,
			Commands: append([]string{"sed -n '/^#/p' " + encryptionFile, restartAPIServer}, readyz()...),
		},
		{
			Text: "Prove it: a new Secret begins with k8s:enc:kms:v2: in etcd and can be read. The last command takes it away. The files of etcdctl are kubeadm's",
			Commands: []string{
				"kubectl create secret generic kms-check --from-literal=word=hello",
				"ETCDCTL_API=3 etcdctl --endpoints=https://127.0.0.1:2379 \\",
				"  --cacert=/etc/kubernetes/pki/etcd/ca.crt \\",
				"  --cert=/etc/kubernetes/pki/etcd/server.crt \\",
				"  --key=/etc/kubernetes/pki/etcd/server.key get --print-value-only \\",
				"  /registry/secrets/default/kms-check | head -c 15; echo",
				"kubectl get secret kms-check -o jsonpath='{.data.word}' | base64 -d; echo",
				"kubectl delete secret kms-check",
			},
		},
		o.rewriteStep(),
		{
			Text: "When that is done without an error: take identity out of the file, on one node after the other, and restart its API server. In a file that was there before, do it by hand, and take out the older providers of what has been rewritten as well. doctor then passes everything",
			Commands: slices.Concat(
				line("sed -i '/^ *- identity: {}$/d'", encryptionPath), doctor, []string{restartAPIServer}),
		},
	}
	if !o.encryptsSecrets() {
		steps[3].Text = "Look at every node's API server once more: its check passes. An object of what is encrypted begins with k8s:enc:kms:v2: in etcd from its next write on"
		steps[3].Commands = readyz()
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
