package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// The API server's EncryptionConfiguration, as far as it matters here. The types
// are our own: the provider links nothing of Kubernetes but the KMS API (design:
// overview). Values of the file that could be secret are never kept.

// encryptionFile is a whole EncryptionConfiguration.
type encryptionFile struct{ groups []encryptionGroup }

// encryptionGroup is an element of resources.
type encryptionGroup struct {
	resources []groupResource
	providers []encryptionProvider
}

// groupResource is a resource with its API group: "secrets", "*.", "*.apps".
type groupResource struct{ resource, group string }

func parseGroupResource(s string) groupResource {
	resource, group, _ := strings.Cut(s, ".")
	return groupResource{resource, group}
}

// String is the spelling of the file.
func (g groupResource) String() string {
	if g.group == "" && g.resource != "*" {
		return g.resource
	}
	return g.resource + "." + g.group
}

// Kinds of provider.
const (
	kindKMS       = "kms"
	kindIdentity  = "identity"
	kindAESGCM    = "aesgcm"
	kindAESCBC    = "aescbc"
	kindSecretbox = "secretbox"
)

// encryptionProvider is an element of providers.
type encryptionProvider struct {
	kind string
	kms  *kmsEntry // of kindKMS
}

// kmsEntry is a kms provider.
type kmsEntry struct {
	at         place
	apiVersion string
	name       string
	endpoint   string
	timeout    time.Duration
}

// place is where something stands in the file.
type place struct {
	field string
	line  int
}

func (p place) String() string { return fmt.Sprintf("line %d, %s", p.line, p.field) }

// effective are the providers that the API server tries for a resource, in its
// order: of the most specific lists that name it, one after the other.
func (f *encryptionFile) effective(g groupResource) []encryptionProvider {
	for _, key := range []groupResource{g, {"*", g.group}, {"*", "*"}} {
		var all []encryptionProvider
		for _, group := range f.groups {
			for _, r := range group.resources {
				if r == key {
					all = append(all, group.providers...)
				}
			}
		}
		if all != nil {
			return all
		}
	}
	return nil
}

// resources are all that the file names, each once, in its order.
func (f *encryptionFile) resources() []groupResource {
	var all []groupResource
	seen := map[groupResource]bool{}
	for _, group := range f.groups {
		for _, r := range group.resources {
			if !seen[r] {
				seen[r] = true
				all = append(all, r)
			}
		}
	}
	return all
}

// entries are all kms providers, in the order of the file.
func (f *encryptionFile) entries() []*kmsEntry {
	var all []*kmsEntry
	for _, group := range f.groups {
		for _, p := range group.providers {
			if p.kms != nil {
				all = append(all, p.kms)
			}
		}
	}
	return all
}

// encryptionLook is what reading the file gave: a file, or why there is none.
type encryptionLook struct {
	file *encryptionFile
	// more: further documents follow the one that was read.
	more bool
	bad  finding
}

const (
	reasonEncryptionMissing    = "encryption_config_missing"
	reasonEncryptionUnreadable = "encryption_config_unreadable"
	reasonEncryptionInvalid    = "encryption_config_invalid"
	reasonEncryptionNotJudged  = "encryption_config_not_judged"
	reasonEncryptionMore       = "encryption_config_documents"
)

// fromStandardInput stands for a file that only root may open, which the shell
// can hand to a command that runs as another user.
const fromStandardInput = "-"

// encryptionLimit is the size in bytes up to which the file is read.
const encryptionLimit = 1 << 20

// lookAtEncryption reads the file once for both checks.
func (e *exam) lookAtEncryption(ctx context.Context) *encryptionLook {
	if e.encryption == nil {
		e.encryption = lookAt(ctx, e.o.EncryptionConfig)
	}
	return e.encryption
}

func lookAt(ctx context.Context, path string) *encryptionLook {
	data, err := readBounded(ctx, path)
	silent, isSilent := errors.AsType[inputError](err)
	switch {
	case isSilent:
		return &encryptionLook{bad: failed(reasonEncryptionUnreadable, "the EncryptionConfiguration was not read: "+string(silent),
			"hand the file over on standard input, for example: bao-kms-provider doctor --encryption-config - < FILE")}
	case errors.Is(err, errNotRegular):
		return &encryptionLook{bad: failed(reasonEncryptionUnreadable, "the EncryptionConfiguration cannot be read: what --encryption-config names is not a regular file",
			"give the path that kube-apiserver has in --encryption-provider-config, or - for standard input")}
	case errors.Is(err, fs.ErrNotExist):
		return &encryptionLook{bad: failed(reasonEncryptionMissing, "there is no file at the path given with --encryption-config",
			"give the path that kube-apiserver has in --encryption-provider-config")}
	case errors.Is(err, fs.ErrPermission):
		return &encryptionLook{bad: failed(reasonEncryptionUnreadable, "the EncryptionConfiguration cannot be read by "+userName(os.Geteuid()),
			"let root's shell open it: runuser -u openbao-kms -- bao-kms-provider doctor --encryption-config - < FILE")}
	case err != nil:
		return &encryptionLook{bad: failed(reasonEncryptionUnreadable, "the EncryptionConfiguration cannot be read: its file system fails",
			"give the path that kube-apiserver has in --encryption-provider-config")}
	case len(data) > encryptionLimit:
		return &encryptionLook{bad: failed(reasonEncryptionUnreadable, fmt.Sprintf("the EncryptionConfiguration is larger than %d bytes", encryptionLimit),
			"check that it is the right file")}
	}
	return judgedDocument(data)
}

// judgedDocument is what there is to say of a file's content.
func judgedDocument(data []byte) *encryptionLook {
	d := readEncryption(data)
	switch {
	case len(d.problems) > 0:
		return &encryptionLook{bad: encryptionProblems(d.problems)}
	case d.unjudged != nil:
		return &encryptionLook{bad: warning(reasonEncryptionNotJudged, "the file cannot be judged here: "+d.unjudged.String(), d.unjudged.fix)}
	}
	return &encryptionLook{file: d.file, more: d.more}
}

// encryptionProblem is something that the API server would refuse the file for,
// or, rarely, that only makes it mean something else than it seems to.
// It holds no value of the file.
type encryptionProblem struct {
	at        place
	text, fix string
}

func (p encryptionProblem) String() string {
	switch {
	case p.at.line == 0:
		return p.at.field + " " + p.text
	}
	return fmt.Sprintf("line %d: %s %s", p.at.line, p.at.field, p.text)
}

// encryptionProblems tells how many there are, and the first of them.
func encryptionProblems(all []encryptionProblem) finding {
	if len(all) == 1 {
		return failed(reasonEncryptionInvalid, "the file cannot be used: "+all[0].String(), all[0].fix)
	}
	var told, fixes []string
	for _, p := range all[:min(len(all), toldProblems)] {
		told, fixes = append(told, p.String()), append(fixes, p.fix)
	}
	message := fmt.Sprintf("the file cannot be used, it has %d problems: %s", len(all), strings.Join(told, "; "))
	if more := len(all) - len(told); more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return failed(reasonEncryptionInvalid, message, "correct them in this order, and run this again: "+strings.Join(fixes, "; "))
}
