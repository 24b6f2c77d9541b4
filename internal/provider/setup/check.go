package setup

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/baokms/baokms/internal/provider/config"
)

// check judges the completed options, and the configuration that was rendered
// from them. given are the options before: what was left out there is told as
// missing once, and not again as whatever its default would break.
func check(given, o *Options, rendered []byte) (*config.Config, error) {
	flags := given.Flags()
	p := problems{}
	p.missing(given, flags)
	p.choices(flags)
	p.unused(given)
	c, err := config.Parse(rendered, nil)
	if err := p.configuration(err, o.Flags()); err != nil {
		return nil, err
	}
	p.login(o)
	p.node(o)
	p.apiServer(o)
	p.consequences(given, flags)
	if err := p.err(flags); err != nil {
		return nil, err
	}
	return c, nil
}

// missing tells the required flags that are empty.
func (p problems) missing(o *Options, flags []Flag) {
	for _, f := range flags {
		if v, isText := f.Value.(*string); isText && *v == "" && f.needed.in(o) {
			p.add(f.Name, "is missing: "+strings.TrimSuffix(f.Help, f.needed.note()), fmt.Sprintf("for example --%s %s", f.Name, f.Example))
		}
	}
}

// unused tells the flags that something else was chosen than they are for: who
// gives them believes that they do something. An empty one counts as not given.
func (p problems) unused(given *Options) {
	standard := Defaults()
	defaults := standard.Flags()
	for i, f := range given.Flags() {
		flag, value := f.only.choice()
		if _, unclear := p[flag]; unclear || flag == "" || f.only.in(given) {
			continue
		}
		if v := reflect.ValueOf(f.Value).Elem(); !v.IsZero() && !v.Equal(reflect.ValueOf(defaults[i].Value).Elem()) {
			p.add(f.Name, "is used with --"+flag+" "+value+" only", "leave it out, or give --"+flag+" "+value)
		}
	}
}

func (p problems) choices(flags []Flag) {
	for _, f := range flags {
		if v, isText := f.Value.(*string); isText && f.Choices != nil && !slices.Contains(f.Choices, *v) {
			p.add(f.Name, "is none of "+strings.Join(f.Choices, ", "), "give one of them")
		}
	}
}

// configuration takes over what config says, by the names of the flags. Its
// error is a mistake of this package, not of the flags.
func (p problems) configuration(err error, flags []Flag) error {
	var e *config.Error
	if err == nil {
		return nil
	}
	if !errors.As(err, &e) || e.Err != nil {
		return fmt.Errorf("the configuration that init made cannot be judged: %w", err)
	}
	for _, problem := range e.Problems {
		i := slices.IndexFunc(flags, func(f Flag) bool { return f.field != "" && f.field == problem.Field })
		if i < 0 {
			return fmt.Errorf("the configuration that init made is refused, which is a mistake in init: %s", problem)
		}
		p.add(flags[i].Name, problem.Text, problem.Fix)
	}
	return nil
}

// consequences drops what is wrong with a default only because the flag that it
// follows from is wrong or missing.
func (p problems) consequences(given *Options, flags []Flag) {
	follows := map[string]string{
		"tls-server-name": "address", "auth-role": "provider-name", "policy-name": "provider-name",
		"auth-mount": "auth-method", "socket-group": "group-id",
	}
	for _, f := range flags {
		v, isText := f.Value.(*string)
		if _, wrong := p[follows[f.Name]]; wrong && isText && *v == "" {
			delete(p, f.Name)
		}
	}
}

var (
	roleSyntax   = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)
	policySyntax = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)
	listedSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+ -]*$`)
)

// login refuses what OpenBao or its command line would take for something else.
func (p problems) login(o *Options) {
	if strings.HasPrefix(o.TransitMount, "-") {
		p.add("transit-mount", "begins with -, which the bao command takes for a flag", "mount the engine at another path")
	}
	const fromName = "; without the flag it is --provider-name"
	if o.AuthRole != "" && !roleSyntax.MatchString(o.AuthRole) {
		p.add("auth-role", "is not a role name that OpenBao accepts", "give letters, digits, _, and - or . inside"+fromName)
	}
	switch {
	case o.PolicyName == "":
	case !policySyntax.MatchString(o.PolicyName):
		p.add("policy-name", "is not a policy name that OpenBao keeps as it is", "give lower-case letters, digits, _, and - or . inside"+fromName)
	case o.PolicyName == "root" || o.PolicyName == "default":
		p.add("policy-name", "is a policy of OpenBao itself", "give a name of its own")
	}
	if o.AuthMethod == config.MethodCert {
		p.listed("cert-common-name", o.CertCommonName)
		return
	}
	p.listed("jwt-audience", o.JWTAudience)
	for flag, v := range map[string]string{"jwt-issuer": o.JWTIssuer, "jwt-subject": o.JWTSubject} {
		// The command line reads a file, or its input, for these.
		if strings.HasPrefix(v, "@") || strings.HasPrefix(v, `\`) || v == "-" {
			p.add(flag, "begins with a character that the bao command takes for something else", "write the role with OpenBao's API instead, and give another value here")
		}
	}
}

// listed refuses what would not be exactly one entry of a list in OpenBao, or a
// pattern there.
func (p problems) listed(flag, v string) {
	if v != "" && (!listedSyntax.MatchString(v) || strings.TrimSpace(v) != v) {
		p.add(flag, "has a character other than letters, digits, inner spaces and . _ : / @ + -", "give the one value that is in the credential")
	}
}

// pathSyntax is what means the same to a shell, a unit, tmpfiles.d and a manifest.
var pathSyntax = regexp.MustCompile(`^/[A-Za-z0-9._/@+-]+$`)

// containersOwn are paths whose directory in the image or in the container's own
// file systems a mount would cover.
var containersOwn = regexp.MustCompile(`^/(usr|proc|sys|dev|bin|sbin|lib[^/]*)/`)

// hidden are the directories that the unit keeps from the provider (ProtectHome,
// PrivateTmp).
var hidden = []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"}

// node refuses what the node's side cannot do.
func (p problems) node(o *Options) {
	for flag, path := range o.credentials() {
		if !pathSyntax.MatchString(path) {
			p.add(flag, "is a path with a character other than letters, digits and . _ / @ + -", "give an absolute path that needs no quotes anywhere")
		}
		inside := func(dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }
		if slices.ContainsFunc([]string{socketDir, reportDir, stateDir, encryptionDir}, inside) {
			p.add(flag, "is in a directory that is for something else", "give a path elsewhere, for example in "+configDir)
		}
		if path == configPath {
			p.add(flag, "is the configuration's own path", "give the path of another file")
		}
		if o.For == StaticPod && containersOwn.MatchString(path) {
			p.add(flag, "is in a directory that is the container's own", "give a path elsewhere, for example in "+configDir)
		}
		if o.For == StaticPod && strings.Count(path, "/") < 3 {
			p.add(flag, "is in a directory that cannot be mounted into a container", "put it into a directory of its own, for example "+configDir)
		}
		if o.For == Systemd && slices.ContainsFunc(hidden, inside) {
			p.add(flag, "is in a directory that the service does not see: "+strings.Join(hidden, " "), "give a path elsewhere, for example in "+configDir)
		}
	}
	p.socketGroup(o)
	if o.For != StaticPod {
		return
	}
	p.image(o.Image)
	p.number("user-id", o.UserID)
	p.number("group-id", o.GroupID)
}

// socketGroup refuses groups that give the socket to more than the API server, and
// those that a pod cannot have.
func (p problems) socketGroup(o *Options) {
	if o.SocketGroup == "root" || o.SocketGroup == "0" {
		p.add("socket-group", "is root's group, which more than the API server is in", "leave it out when the API server runs as root, which needs no group; else give the group that it runs with")
	}
	if o.For != StaticPod {
		return
	}
	switch n, err := strconv.ParseUint(o.SocketGroup, 10, 64); {
	case err != nil:
		p.add("socket-group", "is a name, which a container cannot look up", "give the group's number on the node")
	case n > math.MaxInt32:
		p.add("socket-group", "is above what the API server takes in a pod, 2147483647", "give the API server's group a lower number")
	}
}

// credentials are the files that are read on the node, by flag.
func (o *Options) credentials() map[string]string {
	files := map[string]string{"ca-cert-file": o.CACertFile}
	switch o.AuthMethod {
	case config.MethodJWT:
		files["jwt-file"] = o.JWTFile
	case config.MethodCert:
		files["cert-file"], files["cert-key-file"] = o.CertFile, o.CertKeyFile
	}
	return files
}

// number refuses user and group numbers of root and those that mean none.
func (p problems) number(flag string, n int) {
	if n < 1 || n > 1<<31-2 {
		p.add(flag, "is not a number from 1 to 2147483646", "give the number of a user that is nothing else on the node, never root's 0")
	}
}

var imageSyntax = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._:/-]*[A-Za-z0-9](@sha256:[0-9a-f]{64})?$`)

// image wants to be told which image: what a tag that moves stands for is decided
// by a restart, perhaps at night and on one node of three.
func (p problems) image(v string) {
	if v == "" {
		return
	}
	const fix = "give registry/name:version, or name@sha256:DIGEST"
	named, _, digest := strings.Cut(v, "@")
	_, tag, tagged := strings.Cut(named[strings.LastIndexByte(named, '/')+1:], ":")
	switch {
	case !imageSyntax.MatchString(v) || strings.Contains(v, "//"):
		p.add("image", "is not the name of an image", fix)
	case !digest && (!tagged || tag == "latest"):
		p.add("image", "does not say which version", fix)
	}
}

// apiServer refuses what the API server refuses in an EncryptionConfiguration.
func (p problems) apiServer(o *Options) {
	if strings.Contains(o.ProviderName, ":") {
		p.add("provider-name", "holds a colon, which the API server refuses in a provider's name", "give a name without one")
	}
	p.resources(o.Resources)
}

var resourceSyntax = regexp.MustCompile(`^(\*|[a-z][a-z0-9-]*)(\.[a-z0-9.-]*|\.\*)?$`)

// resources holds the list against the rules of apiserver.config.k8s.io/v1.
func (p problems) resources(list []string) {
	add := func(text, fix string) { p.add("resources", text, fix) }
	if len(list) == 0 {
		add("is empty", "name what is to be encrypted, for example secrets")
	}
	for i, r := range list {
		name, group, _ := strings.Cut(r, ".")
		switch {
		case !resourceSyntax.MatchString(r):
			add("has an entry that is no resource", "write each in the plural, small letters, with its group if it has one: secrets, deployments.apps")
		case r == "*":
			add("has *", "write *. for everything in the core group, or *.* for everything")
		case group == "*" && name != "*":
			add("names one resource in all groups", "write the group's name")
		case group == "events.k8s.io", group == "extensions":
			add("names a group under which nothing is stored", "write events for events; the extensions group is gone")
		case slices.Contains([]string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}, name) && group == "":
			add("names something that is not encrypted", "leave it out")
		}
		for _, other := range list[:i] {
			otherName, otherGroup, _ := strings.Cut(other, ".")
			same := group == otherGroup && (name == otherName || name == "*" || otherName == "*")
			if same || group == "*" || otherGroup == "*" {
				add("names something twice", "leave out what another entry covers")
			}
		}
	}
}

// endpoint is the socket as the API server's configuration names it.
func endpoint() string { return (&url.URL{Scheme: "unix", Path: socketPath}).String() }
