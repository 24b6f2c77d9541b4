package setup

import (
	"cmp"
	"net/url"
	"strconv"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/version"
)

// Values of Options.For.
const (
	Systemd   = "systemd"
	StaticPod = "static-pod"
)

// Options are what init's flags say; Flags tells what each field means. Start
// with Defaults: a field is taken as it is, and an empty one counts as not given.
type Options struct {
	Dir, For string

	Address, TLSServerName, CACertFile string
	InstanceID, Namespace              string

	AuthMethod, AuthMount, AuthRole             string
	JWTFile, JWTIssuer, JWTAudience, JWTSubject string
	CertFile, CertKeyFile, CertCommonName       string

	TransitMount, TransitKey                            string
	ProviderName, ClusterID, TransitMountID, KeyLineage string

	PolicyName                    string
	SocketGroup                   string
	Resources                     []string
	ReportSocket                  bool
	MetricsAddress, HealthAddress string

	Image           string
	UserID, GroupID int

	// Build is this binary's, for the report. It is no flag.
	Build version.Info
}

// Defaults returns the options of a command line without flags.
func Defaults() Options {
	standard := config.Default().Server
	return Options{
		For:            Systemd,
		CACertFile:     caPath,
		AuthMethod:     config.MethodJWT,
		JWTFile:        jwtPath,
		CertFile:       certPath,
		CertKeyFile:    keyPath,
		Resources:      []string{"secrets"},
		MetricsAddress: standard.MetricsAddress,
		HealthAddress:  standard.HealthAddress,
		UserID:         10001,
		GroupID:        10001,
	}
}

// Flag describes one flag of init.
type Flag struct {
	// Name is without its dashes.
	Name string
	// Value points into the Options: a *string, *bool, *int or *[]string, which
	// holds the default.
	Value any
	// Help is one line; what is required says so.
	Help string
	// Example is a value that could be meant.
	Example string
	// Choices are all accepted values, nil for any.
	Choices []string

	needed need
	// only says what the flag is used with; optional means everything. What must be
	// given with something is used with that alone.
	only  need
	field string // of the configuration
}

// need says when a flag must be given.
type need int

const (
	optional need = iota
	always
	withJWT
	withCert
	withStaticPod
)

// choice is the flag that decides it, and the value there; both are empty for what
// no flag decides.
func (n need) choice() (flag, value string) {
	switch n {
	case withJWT:
		return "auth-method", config.MethodJWT
	case withCert:
		return "auth-method", config.MethodCert
	case withStaticPod:
		return "for", StaticPod
	}
	return "", ""
}

// note is what a flag's help says about it.
func (n need) note() string {
	flag, value := n.choice()
	switch {
	case n == always:
		return " (required)"
	case flag != "":
		return " (required with --" + flag + " " + value + ")"
	}
	return ""
}

// in tells whether the flag must be given together with what o says.
func (n need) in(o *Options) bool {
	switch n {
	case always:
		return true
	case withJWT:
		return o.AuthMethod == config.MethodJWT
	case withCert:
		return o.AuthMethod == config.MethodCert
	case withStaticPod:
		return o.For == StaticPod
	}
	return false
}

// Flags are all flags of init, bound to o, in the order in which help tells them.
func (o *Options) Flags() []Flag {
	list := []Flag{
		{Name: "dir", Value: &o.Dir, needed: always, Example: "openbao-kms",
			Help: "Directory to write into: new, or empty"},
		{Name: "for", Value: &o.For, Example: StaticPod, Choices: []string{Systemd, StaticPod},
			Help: "What runs the provider on the node: systemd or static-pod"},

		{Name: "address", Value: &o.Address, needed: always, field: "openbao.address", Example: "https://openbao.example.net:8200",
			Help: "OpenBao's https://host:port"},
		{Name: "tls-server-name", Value: &o.TLSServerName, field: "openbao.tlsServerName", Example: "openbao.example.net",
			Help: "Name in OpenBao's certificate; default is the host of --address"},
		{Name: "ca-cert-file", Value: &o.CACertFile, field: "openbao.caCertFile", Example: caPath,
			Help: "File on the node with the authorities of OpenBao's certificate"},
		{Name: "instance-id", Value: &o.InstanceID, needed: always, field: "openbao.instanceId", Example: "bao-prod-a",
			Help: "Stable name of this OpenBao, part of the key's identity for ever"},
		{Name: "namespace", Value: &o.Namespace, field: "openbao.namespace", Example: "team/project",
			Help: "OpenBao namespace, part of the key's identity for ever; default is none"},

		{Name: "transit-mount", Value: &o.TransitMount, needed: always, field: "transit.mountPath", Example: "transit-kms",
			Help: "Mount path of the Transit engine; never changes afterwards"},
		{Name: "transit-key", Value: &o.TransitKey, needed: always, field: "transit.keyName", Example: "workload-a",
			Help: "Name of the Transit key, one for each cluster; never changes afterwards"},
		{Name: "provider-name", Value: &o.ProviderName, needed: always, field: "transit.keyIdScope.providerName", Example: "openbao-kms-workload-a",
			Help: "Name of the provider, also in the EncryptionConfiguration; identity for ever"},
		{Name: "cluster-id", Value: &o.ClusterID, needed: always, field: "transit.keyIdScope.clusterId", Example: "workload-a",
			Help: "Stable name of the protected cluster; identity for ever"},
		{Name: "transit-mount-id", Value: &o.TransitMountID, needed: always, field: "transit.keyIdScope.transitMountId", Example: "transit-kms-prod",
			Help: "Stable name of the Transit mount, not its path; identity for ever"},
		{Name: "key-lineage-id", Value: &o.KeyLineage, needed: always, field: "transit.keyIdScope.keyLineageId", Example: "workload-a-2026",
			Help: "Stable name of this key's life; a key created anew gets a new one"},

		{Name: "auth-method", Value: &o.AuthMethod, field: "auth.method", Example: config.MethodCert, Choices: []string{config.MethodJWT, config.MethodCert},
			Help: "How to log in: jwt, or cert for a client certificate"},
		{Name: "auth-mount", Value: &o.AuthMount, field: o.section("mountPath"), Example: "auth/jwt-kms",
			Help: "Mount path of the auth method with auth/; default is auth/jwt-kms or auth/cert-kms"},
		{Name: "auth-role", Value: &o.AuthRole, field: o.roleField(), Example: "openbao-kms-workload-a",
			Help: "Role to log in with; default is --provider-name"},
		{Name: "jwt-file", Value: &o.JWTFile, only: withJWT, field: "auth.jwt.jwtFile", Example: jwtPath,
			Help: "File on the node with the JWT"},
		{Name: "jwt-issuer", Value: &o.JWTIssuer, needed: withJWT, field: "auth.jwt.expectedIssuer", Example: "https://issuer.example.net",
			Help: "The JWT's iss"},
		{Name: "jwt-audience", Value: &o.JWTAudience, needed: withJWT, field: "auth.jwt.expectedAudience", Example: "openbao",
			Help: "The JWT's aud"},
		{Name: "jwt-subject", Value: &o.JWTSubject, needed: withJWT, field: "auth.jwt.expectedSubject", Example: "control-plane-node",
			Help: "The JWT's sub"},
		{Name: "cert-file", Value: &o.CertFile, only: withCert, field: "auth.cert.certificateFile", Example: certPath,
			Help: "File on the node with the client certificate and its chain"},
		{Name: "cert-key-file", Value: &o.CertKeyFile, only: withCert, field: "auth.cert.keyFile", Example: keyPath,
			Help: "File on the node with the client certificate's private key"},
		{Name: "cert-common-name", Value: &o.CertCommonName, needed: withCert, Example: "control-plane-node",
			Help: "Common name of the client certificate, for the role in OpenBao"},
		{Name: "policy-name", Value: &o.PolicyName, Example: "openbao-kms-workload-a",
			Help: "Name of the policy in OpenBao; default is --provider-name"},

		{Name: "socket-group", Value: &o.SocketGroup, field: "server.socketGroup", Example: "kube-apiserver",
			Help: "Group of an API server that does not run as root; default is the provider's own"},
		{Name: "resources", Value: &o.Resources, Example: "secrets,configmaps",
			Help: "What the API server encrypts"},
		{Name: "report-socket", Value: &o.ReportSocket, field: "server.reportSocketPath", Example: "true",
			Help: "Also serve the node report, on a socket in " + reportDir},
		{Name: "metrics-address", Value: &o.MetricsAddress, field: "server.metricsAddress", Example: "127.0.0.1:9081",
			Help: "host:port of /metrics; empty disables it"},
		{Name: "health-address", Value: &o.HealthAddress, field: "server.healthAddress", Example: "127.0.0.1:9082",
			Help: "host:port of /live and /ready; empty disables it"},

		{Name: "image", Value: &o.Image, needed: withStaticPod, Example: "registry.example.net/bao-kms-provider:v1.0.0",
			Help: "Container image whose entry point is bao-kms-provider, with a tag or digest"},
		{Name: "user-id", Value: &o.UserID, only: withStaticPod, Example: "10001",
			Help: "Number of the user that the static pod runs as; it owns the state directory"},
		{Name: "group-id", Value: &o.GroupID, only: withStaticPod, Example: "10001",
			Help: "Number of that user's group"},
	}
	for i := range list {
		if list[i].only == optional && list[i].needed != always {
			list[i].only = list[i].needed
		}
		list[i].Help += list[i].needed.note()
	}
	return list
}

// section is a field of the login method's section.
func (o *Options) section(name string) string { return "auth." + o.AuthMethod + "." + name }

// roleField is where the role stands: the two methods name it differently.
func (o *Options) roleField() string {
	if o.AuthMethod == config.MethodCert {
		return o.section("name")
	}
	return o.section("role")
}

// complete returns o with the defaults that follow from other fields.
func (o Options) complete() Options {
	o.TLSServerName = cmp.Or(o.TLSServerName, hostOf(o.Address))
	o.AuthMount = cmp.Or(o.AuthMount, "auth/"+o.AuthMethod+"-kms")
	o.AuthRole = cmp.Or(o.AuthRole, o.ProviderName)
	o.PolicyName = cmp.Or(o.PolicyName, o.ProviderName)
	if o.SocketGroup == "" {
		// A container does not know the names of the node's groups.
		o.SocketGroup = userName
		if o.For == StaticPod {
			o.SocketGroup = strconv.Itoa(o.GroupID)
		}
	}
	return o
}

// hostOf is the host of a URL, "" when there is none; config says what is wrong
// with the URL then.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// ownGroup tells whether the socket's group is the provider's own.
func (o *Options) ownGroup() bool {
	if o.For == StaticPod {
		return o.SocketGroup == strconv.Itoa(o.GroupID)
	}
	return o.SocketGroup == userName
}
