package setup

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"text/template"

	"github.com/baokms/baokms/internal/provider/config"
	"github.com/baokms/baokms/internal/provider/policy"
)

//go:embed templates
var templates embed.FS

// parsed are the templates. In each, quote writes a text so that every YAML
// reader takes it for that text; what is not quoted is this package's own, or of
// a syntax that check.go has narrowed.
var parsed = template.Must(template.New("").Funcs(template.FuncMap{
	// Go's quoting is YAML's, as long as the text is valid UTF-8.
	"quote": strconv.Quote,
}).ParseFS(templates, "templates/*"))

// file is one file to be written.
type file struct {
	name    string
	mode    fs.FileMode
	target  string // on the node
	purpose string
	content []byte
}

// view is what the templates see.
type view struct {
	*Options
	Version, User, Binary                             string
	ConfigPath, SocketPath, ReportPath, EncryptPath   string
	ConfigDir, SocketDir, ReportDir, StateDir, EncDir string
	Endpoint                                          string
	OwnGroup                                          bool
	// OwnerGroup is the socket's group as tmpfiles.d names it.
	OwnerGroup string
	// IdentityFirst turns the EncryptionConfiguration into the one that only reads.
	IdentityFirst bool
	// Probe is where kubelet finds /live; nil without a fixed address.
	Probe *address
	// ReadDirs are the directories that the static pod reads from.
	ReadDirs []string
}

// address is a listener as a client on the node reaches it.
type address struct{ Host, Port string }

func (o *Options) view() view {
	v := view{
		Options: o, Version: config.Version, User: userName, Binary: binaryPath,
		ConfigPath: configPath, SocketPath: socketPath, ReportPath: reportPath, EncryptPath: encryptionPath,
		ConfigDir: configDir, SocketDir: socketDir, ReportDir: reportDir, StateDir: stateDir, EncDir: encryptionDir,
		Endpoint: endpoint(), OwnGroup: o.ownGroup(), OwnerGroup: o.SocketGroup,
		Probe: reach(o.HealthAddress), ReadDirs: []string{configDir},
	}
	if v.OwnGroup {
		v.OwnerGroup = userName
	}
	for _, path := range o.credentials() {
		if dir := filepath.Dir(path); !slices.Contains(v.ReadDirs, dir) {
			v.ReadDirs = append(v.ReadDirs, dir)
		}
	}
	slices.Sort(v.ReadDirs[1:]) // credentials come in no order
	return v
}

// reach is where a listener is found from its own node: one that listens
// everywhere is found on loopback. nil when it is disabled or its port is chosen
// anew at each start.
func reach(listen string) *address {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return nil
	}
	switch host {
	case "", "0.0.0.0", "::":
		host = "127.0.0.1"
	}
	return &address{host, port}
}

// hostPort is the address in a URL.
func (a *address) hostPort() string { return net.JoinHostPort(a.Host, a.Port) }

func (v view) render(name string) ([]byte, error) {
	var b bytes.Buffer
	if err := parsed.ExecuteTemplate(&b, name, v); err != nil {
		return nil, fmt.Errorf("filling in %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// files renders everything but the configuration, which is given: it has been
// judged already.
func (o *Options) files(rendered []byte) ([]file, error) {
	v := o.view()
	prepare := v
	prepare.IdentityFirst = true
	list := []file{
		{configFile, 0o640, configPath, "the provider's configuration", rendered},
		{policyFile, 0o644, "", "what the provider may do in OpenBao", []byte(policy.OpenBao(o.TransitMount, o.TransitKey))},
	}
	for _, d := range []draft{
		{"sysusers.conf." + o.For, v, file{sysusersFile, 0o644, sysusersPath, "the provider's user and group", nil}},
		{"tmpfiles.conf", v, file{tmpfilesFile, 0o644, tmpfilesPath, "directories, also after a restart of the node", nil}},
		o.runner(v),
		{"encryption-config.yaml", v, file{encryptionFile, 0o600, encryptionPath, "tells the API server to encrypt", nil}},
		{"encryption-config.yaml", prepare, file{prepareFile, 0o600, encryptionPath, "before it, with several API servers: reads, does not encrypt", nil}},
	} {
		content, err := d.v.render(d.template)
		if err != nil {
			return nil, err
		}
		d.content = content
		list = append(list, d.file)
	}
	return list, nil
}

// draft is a file whose content a template makes.
type draft struct {
	template string
	v        view
	file
}

// runner is what starts the provider.
func (o *Options) runner(v view) draft {
	if o.For == StaticPod {
		return draft{manifestFile, v, file{manifestFile, 0o600, manifestPath, "the static pod", nil}}
	}
	return draft{unitFile, v, file{unitFile, 0o644, unitPath, "the service", nil}}
}

// agrees tells whether a configuration that was read back is exactly what the
// options say, with the default of everything that they do not.
func (o *Options) agrees(c *config.Config) bool {
	want := config.Default()
	want.ConfigVersion = config.Version
	want.Server.SocketGroup = config.Group(o.SocketGroup)
	want.Server.MetricsAddress, want.Server.HealthAddress = o.MetricsAddress, o.HealthAddress
	if o.ReportSocket {
		want.Server.ReportSocketPath = reportPath
	}
	want.OpenBao.Address, want.OpenBao.CACertFile, want.OpenBao.TLSServerName = o.Address, o.CACertFile, o.TLSServerName
	want.OpenBao.InstanceID, want.OpenBao.Namespace = o.InstanceID, o.Namespace
	want.Auth.Method = o.AuthMethod
	if c.Auth.JWT != nil {
		want.Auth.JWT = &config.JWTAuth{
			MountPath: o.AuthMount, Role: o.AuthRole, JWTFile: o.JWTFile,
			MinRemainingTTL: c.Auth.JWT.MinRemainingTTL, ClockSkewLeeway: c.Auth.JWT.ClockSkewLeeway,
			ExpectedIssuer: o.JWTIssuer, ExpectedAudience: o.JWTAudience, ExpectedSubject: o.JWTSubject,
		}
	}
	if c.Auth.Cert != nil {
		want.Auth.Cert = &config.CertAuth{
			MountPath: o.AuthMount, Name: o.AuthRole, CertificateFile: o.CertFile, KeyFile: o.CertKeyFile,
			MinRemainingTTL: c.Auth.Cert.MinRemainingTTL,
		}
	}
	want.Transit = config.Transit{MountPath: o.TransitMount, KeyName: o.TransitKey, KeyIDScope: config.KeyIDScope{
		ProviderName: o.ProviderName, ClusterID: o.ClusterID, TransitMountID: o.TransitMountID, KeyLineageID: o.KeyLineage,
	}}
	return reflect.DeepEqual(c, want)
}
