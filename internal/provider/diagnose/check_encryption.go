package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Reason codes of the checks of the EncryptionConfiguration.
const (
	reasonProviderMissing = "provider_missing"
	reasonKMSv1           = "kms_v1"
	reasonEndpointDiffers = "endpoint_differs"
	reasonNameDiffers     = "name_differs"
	reasonTimeoutShort    = "timeout_short"
	reasonNotFirst        = "provider_not_first"
	reasonSecretsPlain    = "secrets_not_covered"
	reasonIdentityFirst   = "identity_first"
	reasonIdentityLast    = "identity_fallback"
)

// notAsked is the answer of both checks without a file.
const notAsked = "not asked for: give --encryption-config"

var secrets = groupResource{resource: "secrets"}

// checkEncryptionProvider judges whether the API server would use this node's
// provider, and for what.
func checkEncryptionProvider(ctx context.Context, e *exam) finding {
	if e.o.EncryptionConfig == "" {
		return skipped(notAsked)
	}
	look := e.lookAtEncryption(ctx)
	if look.file == nil {
		return look.bad
	}
	j := judgement{
		file: look.file, more: look.more, socket: e.config.Server.SocketPath,
		name: e.config.Transit.KeyIDScope.ProviderName, timeout: time.Duration(e.config.OpenBao.Timeout),
	}
	return j.provider()
}

// judgement holds a file against a configuration.
type judgement struct {
	file         *encryptionFile
	more         bool // documents follow it
	socket, name string
	timeout      time.Duration
}

// reaches reports whether the API server would reach this node's socket through
// an entry, so that it is ours.
func (j judgement) reaches(k *kmsEntry) bool {
	_, n := endpointDifference(k.endpoint, j.socket)
	return n >= same
}

func (j judgement) provider() finding {
	entries := j.file.entries()
	// An endpoint that is meant to be ours is told as that, before it is told as
	// something that the API server refuses.
	var found []finding
	for _, k := range entries {
		if f, bad := j.endpoint(k); bad {
			found = append(found, f)
		}
	}
	var ours []*kmsEntry
	for _, k := range entries {
		switch {
		case !j.reaches(k):
		case k.apiVersion != kmsVersion:
			found = append(found, failed(reasonKMSv1, fmt.Sprintf("%s has apiVersion v1, which this provider does not speak", k.at), "write apiVersion: v2 in it"))
		default:
			ours = append(ours, k)
		}
	}
	switch {
	case len(ours) > 0:
		found = slices.Concat(found, j.names(ours), j.timeouts(ours), j.order(), j.coverage())
	case len(found) == 0:
		found = append(found, j.missing(entries))
	}
	// Of equals the first is told with its next step: the API server may not even
	// start with the older entries.
	return together(slices.Concat(j.olderEntries(entries), found, j.documents()))
}

// olderEntries judges entries of other plugins with the API server's older
// protocol, which it no longer takes by itself.
func (j judgement) olderEntries(entries []*kmsEntry) []finding {
	var first *kmsEntry
	n := 0
	for _, k := range entries {
		if k.apiVersion == defaultKMSVersion && !j.reaches(k) {
			if n++; first == nil {
				first = k
			}
		}
	}
	if first == nil {
		return nil
	}
	message := first.at.String() + " has apiVersion v1"
	if n > 1 {
		message += fmt.Sprintf(", and so have %d more kms providers", n-1)
	}
	return []finding{warning(reasonKMSv1, message+" (the default where none is written): kube-apiserver refuses the whole file unless it runs with --feature-gates=KMSv1=true",
		"make sure that every kube-apiserver has --feature-gates=KMSv1=true for as long as that entry is needed, or move what it encrypts to a kms provider with apiVersion v2 and remove it")}
}

// documents judges what follows the document that was read.
func (j judgement) documents() []finding {
	if !j.more {
		return nil
	}
	return []finding{warning(reasonEncryptionMore, "the file holds more than one YAML document: kube-apiserver takes the first and ignores the rest, and so does this check",
		"remove everything from the second --- on, or make sure that the first document is the right one")}
}

// endpoint judges the endpoint of one entry.
func (j judgement) endpoint(k *kmsEntry) (finding, bool) {
	words, n := endpointDifference(k.endpoint, j.socket)
	const next = "write unix:// and then server.socketPath, exactly, as the endpoint; the API server's pod must have the socket's directory at that same path"
	switch n {
	case equal:
		return finding{}, false
	case same:
		return warning(reasonEndpointDiffers, fmt.Sprintf("%s: the endpoint reaches the socket on this node, but %s", k.at, words), next), true
	case near:
		return failed(reasonEndpointDiffers, fmt.Sprintf("%s: the endpoint %s", k.at, words), next), true
	}
	if _, err := dialled(k.endpoint); err != nil {
		return failed(reasonEncryptionInvalid, fmt.Sprintf("kube-apiserver refuses the file: %s: the endpoint %v", k.at, err), "write unix:// and then the absolute path of the socket"), true
	}
	return finding{}, false
}

// missing is a file without an entry of ours.
func (j judgement) missing(entries []*kmsEntry) finding {
	for _, k := range entries {
		if _, n := nameDifference(k.name, j.name); n >= near {
			words, _ := endpointDifference(k.endpoint, j.socket)
			return failed(reasonEndpointDiffers, fmt.Sprintf("%s has the provider's name, but its endpoint %s", k.at, words),
				"write unix:// and then server.socketPath as its endpoint, or correct server.socketPath")
		}
	}
	message := "no provider in it is a kms provider"
	if n := len(entries); n > 0 {
		message = fmt.Sprintf("none of its %d kms providers has server.socketPath as its endpoint", n)
	}
	return failed(reasonProviderMissing, message, "add a kms provider with apiVersion v2, transit.keyIdScope.providerName as its name and unix:// and then server.socketPath as its endpoint; "+
		"'bao-kms-provider init' writes an example")
}

// names judges what is written in front of every object in etcd.
func (j judgement) names(ours []*kmsEntry) []finding {
	for _, k := range ours {
		if k.name == j.name {
			return nil
		}
	}
	k := ours[0]
	words, n := nameDifference(k.name, j.name)
	message := fmt.Sprintf("%s: the name %s", k.at, words)
	if n == near {
		return []finding{failed(reasonNameDiffers, message, "write transit.keyIdScope.providerName exactly, the same on every node; "+
			"where objects were already written under this name, keep it and make it the same on every node")}
	}
	return []finding{warning(reasonNameDiffers, message, "any name works as long as it is the same on every node and never changes while objects exist; "+
		"before the first object is written, transit.keyIdScope.providerName is the better choice")}
}

func (j judgement) timeouts(ours []*kmsEntry) []finding {
	for _, k := range ours {
		if k.timeout <= j.timeout {
			return []finding{warning(reasonTimeoutShort, fmt.Sprintf("%s: the timeout of %v is not longer than openbao.timeout, %v", k.at, k.timeout, j.timeout),
				"lengthen it, so that the API server's log shows the provider's error and not its own deadline")}
		}
	}
	return nil
}

// order judges for which resources ours encrypts, and for which it only decrypts.
func (j judgement) order() []finding {
	var only []string
	for _, r := range j.file.resources() {
		list := j.file.effective(r)
		first := list[0]
		if j.uses(list) && first.kind != kindIdentity && (first.kms == nil || !j.reaches(first.kms)) {
			only = append(only, spelled(r))
		}
	}
	if only == nil {
		return nil
	}
	return []finding{warning(reasonNotFirst, "another provider comes before this one, which therefore only decrypts, for "+strings.Join(only, ", "),
		"when every API server has this file, make it the first provider on every node, and rewrite the objects")}
}

// uses reports whether ours is among providers.
func (j judgement) uses(list []encryptionProvider) bool {
	return slices.ContainsFunc(list, func(p encryptionProvider) bool { return p.kms != nil && j.reaches(p.kms) })
}

// coverage judges whether Secrets are among what ours is for.
func (j judgement) coverage() []finding {
	if j.uses(j.file.effective(secrets)) {
		return nil
	}
	return []finding{warning(reasonSecretsPlain, "this provider is not used for secrets", "add secrets to the resources of its group, before any group with a wildcard that covers them")}
}

// together makes one finding of several: the worst one's, with what else was
// found behind it.
func together(found []finding) finding {
	if len(found) == 0 {
		return finding{}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(severity(b), severity(a)) })
	worst := found[0]
	for _, f := range found[1:min(len(found), toldProblems)] {
		worst.message += "; also: " + f.message
	}
	if more := len(found) - toldProblems; more > 0 {
		worst.message += fmt.Sprintf("; and %d more", more)
	}
	return worst
}

// checkEncryptionIdentity judges what may be in etcd unencrypted.
func checkEncryptionIdentity(ctx context.Context, e *exam) finding {
	if e.o.EncryptionConfig == "" {
		return skipped(notAsked)
	}
	look := e.lookAtEncryption(ctx)
	if look.file == nil {
		return skippedFor(encryptionKMS)
	}
	uses := func(list []encryptionProvider) bool { // without a configuration: any kms provider
		return slices.ContainsFunc(list, func(p encryptionProvider) bool { return p.kms != nil })
	}
	if e.config != nil {
		uses = judgement{file: look.file, socket: e.config.Server.SocketPath}.uses
	}
	return plaintext(look.file, uses)
}

// plaintext judges identity among the providers of every resource that is
// encrypted with a provider for which uses holds, and of Secrets.
func plaintext(file *encryptionFile, uses func([]encryptionProvider) bool) finding {
	resources := file.resources()
	if !slices.Contains(resources, secrets) && file.effective(secrets) != nil {
		resources = append(resources, secrets)
	}
	var first, fallback, never []string
	encrypted := false
	for _, r := range resources {
		list := file.effective(r)
		at := slices.IndexFunc(list, func(p encryptionProvider) bool { return p.kind == kindIdentity })
		ours := uses(list)
		encrypted = encrypted || ours
		switch {
		case at < 0:
		case at == 0 && (ours || r == secrets):
			first = append(first, spelled(r))
		case ours:
			fallback = append(fallback, spelled(r))
		case at == 0:
			never = append(never, spelled(r))
		}
	}
	told := ""
	if never != nil {
		told = "by a group of their own, never encrypted: " + strings.Join(never, ", ")
	}
	switch {
	case first != nil:
		return failed(reasonIdentityFirst, also("identity comes first, so new objects are written in plaintext: "+strings.Join(first, ", "), told),
			"when every API server has this file, put the kms provider first on every node, and rewrite the objects")
	case !encrypted:
		return skippedFor(encryptionKMS)
	case fallback != nil:
		return warning(reasonIdentityLast, also("identity is still accepted after the kms provider, for reading plaintext: "+strings.Join(fallback, ", "), told),
			"when every object has been rewritten, remove identity on every node")
	case told != "":
		return passed(told)
	}
	return finding{}
}

func also(message, told string) string {
	if told == "" {
		return message
	}
	return message + "; " + told
}

var plainResource = regexp.MustCompile(`^[a-z0-9*-]{1,63}(\.[a-z0-9.*-]{0,100})?$`)

// spelled is a resource's name, if it looks like one: the file is not ours.
func spelled(r groupResource) string {
	if s := r.String(); plainResource.MatchString(s) {
		return s
	}
	return "a resource with an unusual name"
}
