package config

// DefaultPath is where the configuration is when nothing else is said.
const DefaultPath = "/etc/openbao-kms/config.yaml"

// Version is the only accepted configVersion.
const Version = "v1alpha1"

// Values of auth.method, rotation.mode and logging.format.
const (
	MethodJWT    = "jwt"
	MethodCert   = "cert"
	ModeObserved = "observed"
	FormatJSON   = "json"
	FormatText   = "text"
)

// Config is a whole configuration. What a field means is said once, in its
// jsonschema_description tag, which is also the schema's text. The other tags:
// json is the name in the file; jsonschema holds required, enum, minimum and
// maximum; rule names the check of a string (rules.go); range is the closed
// range of a duration.
//
// A Config that Load or Parse returned is valid; it is not changed afterwards.
type Config struct {
	ConfigVersion string    `json:"configVersion" jsonschema:"required,enum=v1alpha1" jsonschema_description:"Version of this file's format."`
	Server        Server    `json:"server" jsonschema:"required" jsonschema_description:"Sockets and listeners of the provider."`
	OpenBao       OpenBao   `json:"openbao" jsonschema:"required" jsonschema_description:"How to reach OpenBao, and which OpenBao it is."`
	Auth          Auth      `json:"auth" jsonschema:"required" jsonschema_description:"How the provider logs in to OpenBao."`
	Transit       Transit   `json:"transit" jsonschema:"required" jsonschema_description:"The Transit key, and what identifies it."`
	State         State     `json:"state" jsonschema_description:"The key registry on disk."`
	Bootstrap     Bootstrap `json:"bootstrap" jsonschema_description:"How long a start may take."`
	Status        Status    `json:"status" jsonschema_description:"Background probes and the age of what Status answers."`
	Rotation      Rotation  `json:"rotation" jsonschema_description:"When a new Transit version is promoted."`
	Logging       Logging   `json:"logging" jsonschema_description:"Logs on standard error."`
}

// Server holds the sockets and listeners.
type Server struct {
	SocketPath           string `json:"socketPath" rule:"socket" jsonschema_description:"Unix socket of the KMS v2 service: absolute, at most 107 bytes, in a directory that exists."`
	SocketMode           Mode   `json:"socketMode" jsonschema_description:"Permissions of the KMS socket: octal, in quotes, not wider than 0660."`
	SocketGroup          Group  `json:"socketGroup" jsonschema:"required" jsonschema_description:"Group that may use the KMS socket, that is the API server's: a group name or a decimal group ID."`
	MetricsAddress       string `json:"metricsAddress" rule:"listen,optional" jsonschema_description:"host:port of /metrics; empty disables it."`
	HealthAddress        string `json:"healthAddress" rule:"listen,optional" jsonschema_description:"host:port of /live and /ready; empty disables it."`
	ReportSocketPath     string `json:"reportSocketPath" rule:"socket,optional" jsonschema_description:"Unix socket of the node report, in a directory of its own; empty disables it."`
	MaxConcurrentStatus  int    `json:"maxConcurrentStatus" jsonschema:"minimum=1,maximum=1024" jsonschema_description:"Status calls served at once; more are refused."`
	MaxConcurrentEncrypt int    `json:"maxConcurrentEncrypt" jsonschema:"minimum=1,maximum=1024" jsonschema_description:"Encrypt calls served at once; more are refused."`
	MaxConcurrentDecrypt int    `json:"maxConcurrentDecrypt" jsonschema:"minimum=1,maximum=1024" jsonschema_description:"Decrypt calls served at once; more are refused."`
}

// OpenBao says how to reach OpenBao.
type OpenBao struct {
	Address       string   `json:"address" jsonschema:"required" rule:"url" jsonschema_description:"https://host:port of OpenBao, without a path. Plain http is accepted only for a loopback address and only with serve --dev."`
	CACertFile    string   `json:"caCertFile" jsonschema:"required" rule:"path" jsonschema_description:"PEM file of the authorities that OpenBao's certificate must come from; the system's are not used."`
	TLSServerName string   `json:"tlsServerName" jsonschema:"required" rule:"servername" jsonschema_description:"Name, or IP address, that OpenBao's certificate must carry."`
	InstanceID    string   `json:"instanceId" jsonschema:"required" rule:"identity" jsonschema_description:"Stable name of this OpenBao. Identity: it never changes while data encrypted under it exists."`
	Namespace     string   `json:"namespace" rule:"namespace,optional" jsonschema_description:"OpenBao namespace, relative, without a slash at either end; empty for none. Identity."`
	Timeout       Duration `json:"timeout" range:"1ms..24h" jsonschema_description:"Deadline of one request to OpenBao."`
}

// Auth says how to log in. The section of the method is set, the other is nil.
type Auth struct {
	Method                string    `json:"method" jsonschema:"enum=jwt,enum=cert" jsonschema_description:"Login method; the section of the same name is required and the other must be absent."`
	LoginBeforeExpiry     Duration  `json:"loginBeforeTokenExpiry" range:"1ms..8760h" jsonschema_description:"How long before its end a token is renewed or replaced."`
	TokenRenewalIncrement Duration  `json:"tokenRenewalIncrement" range:"1ms..8760h" jsonschema_description:"How much time a renewal asks for; longer than loginBeforeTokenExpiry."`
	LoginTimeout          Duration  `json:"loginTimeout" range:"0s..24h" jsonschema_description:"Deadline of one login; 0s means the larger of openbao.timeout and 5s."`
	JWT                   *JWTAuth  `json:"jwt,omitempty" jsonschema_description:"Login with a JWT from a file."`
	Cert                  *CertAuth `json:"cert,omitempty" jsonschema_description:"Login with a client certificate from files."`
}

// JWTAuth is the jwt method.
type JWTAuth struct {
	MountPath        string   `json:"mountPath" jsonschema:"required" rule:"authmount" jsonschema_description:"Mount path of the JWT auth method, with its leading auth/."`
	Role             string   `json:"role" jsonschema:"required" rule:"text" jsonschema_description:"Role to log in with."`
	JWTFile          string   `json:"jwtFile" jsonschema:"required" rule:"path" jsonschema_description:"File with the JWT, read again before each login."`
	MinRemainingTTL  Duration `json:"minRemainingTtl" range:"0s..8760h" jsonschema_description:"A JWT with less time left than this is not used."`
	ClockSkewLeeway  Duration `json:"clockSkewLeeway" range:"0s..24h" jsonschema_description:"How far this node's clock may differ from the issuer's."`
	ExpectedIssuer   string   `json:"expectedIssuer" rule:"text,optional" jsonschema_description:"The JWT's iss must equal this; empty accepts any."`
	ExpectedAudience string   `json:"expectedAudience" rule:"text,optional" jsonschema_description:"The JWT's aud must contain this; empty accepts any."`
	ExpectedSubject  string   `json:"expectedSubject" rule:"text,optional" jsonschema_description:"The JWT's sub must equal this; empty accepts any."`
}

// CertAuth is the cert method.
type CertAuth struct {
	MountPath       string   `json:"mountPath" jsonschema:"required" rule:"authmount" jsonschema_description:"Mount path of the certificate auth method, with its leading auth/."`
	Name            string   `json:"name" rule:"text,optional" jsonschema_description:"Certificate role to log in with; empty lets OpenBao choose by the certificate."`
	CertificateFile string   `json:"certificateFile" jsonschema:"required" rule:"path" jsonschema_description:"PEM file of the client certificate and its chain."`
	KeyFile         string   `json:"keyFile" jsonschema:"required" rule:"path" jsonschema_description:"PEM file of the client certificate's private key."`
	MinRemainingTTL Duration `json:"minRemainingTtl" range:"0s..8760h" jsonschema_description:"A certificate with less time left than this is used, with a warning."`
}

// Transit names the key.
type Transit struct {
	MountPath  string     `json:"mountPath" jsonschema:"required" rule:"transitmount" jsonschema_description:"Mount path of the Transit engine, without a slash at either end. Part of the fingerprint."`
	KeyName    string     `json:"keyName" jsonschema:"required" rule:"keyname" jsonschema_description:"Name of the Transit key. Part of the fingerprint."`
	KeyIDScope KeyIDScope `json:"keyIdScope" jsonschema:"required" jsonschema_description:"What a key_id is derived from. Identity: these never change while data encrypted under them exists."`
}

// KeyIDScope is the part of the identity that is about the key (design:
// identity, key_id).
type KeyIDScope struct {
	ProviderName   string `json:"providerName" jsonschema:"required" rule:"identity" jsonschema_description:"Name of the provider, the same on every node of the cluster."`
	ClusterID      string `json:"clusterId" jsonschema:"required" rule:"identity" jsonschema_description:"Stable name of the protected cluster."`
	TransitMountID string `json:"transitMountId" jsonschema:"required" rule:"identity" jsonschema_description:"Stable name of the Transit mount, not its path."`
	KeyLineageID   string `json:"keyLineageId" jsonschema:"required" rule:"identity" jsonschema_description:"Stable name of this key's life; a key that is created anew gets a new one."`
}

// State says where the key registry is.
type State struct {
	Path string `json:"path" rule:"path" jsonschema_description:"State file; its checkpoint and lock lie beside it."`
}

// Bootstrap bounds the start.
type Bootstrap struct {
	GraceTimeout  Duration `json:"graceTimeout" range:"1ms..24h" jsonschema_description:"How long the first login and probes may be retried before the provider exits."`
	RetryInterval Duration `json:"retryInterval" range:"1ms..24h" jsonschema_description:"Pause between those attempts."`
}

// Status paces the probes.
type Status struct {
	ProbeInterval      Duration `json:"probeInterval" range:"1ms..24h" jsonschema_description:"Pause between metadata probes; below statusMaxStaleness."`
	DeepProbeInterval  Duration `json:"deepProbeInterval" range:"1ms..24h" jsonschema_description:"Pause between encrypt-and-decrypt probes."`
	StatusMaxStaleness Duration `json:"statusMaxStaleness" range:"1ms..24h" jsonschema_description:"Age of the last good metadata at which Status turns unhealthy."`
}

// Rotation guards promotion.
type Rotation struct {
	Mode                   string   `json:"mode" jsonschema:"enum=observed" jsonschema_description:"The provider observes rotations and never performs them."`
	ActivationDelay        Duration `json:"activationDelay" range:"1ms..8760h" jsonschema_description:"Wait between a stable observation of a new version and its promotion."`
	StableObservationCount int      `json:"requireStableObservationCount" jsonschema:"minimum=1,maximum=1024" jsonschema_description:"Metadata probes that must agree on a new version before that wait starts."`
	RejectVersionRollback  bool     `json:"rejectVersionRollback" jsonschema_description:"Refuse metadata whose latest version is below a known one."`
}

// Logging shapes the logs.
type Logging struct {
	Level                string           `json:"level" jsonschema:"enum=debug,enum=info,enum=warn,enum=error" jsonschema_description:"Least severe level that is logged."`
	Format               string           `json:"format" jsonschema:"enum=json,enum=text" jsonschema_description:"Form of a log line."`
	LogOpenBaoRequestIDs bool             `json:"logOpenBaoRequestIDs" jsonschema_description:"Log the request IDs of OpenBao, to find a call in its audit log."`
	DebugCorrelation     DebugCorrelation `json:"debugCorrelation" jsonschema_description:"Extra fields that connect a request with OpenBao's audit log during an incident."`
}

// DebugCorrelation is on for one incident and ends by itself.
type DebugCorrelation struct {
	Enabled    bool     `json:"enabled" jsonschema_description:"Needs logging.level debug and an incidentId."`
	TTL        Duration `json:"ttl" range:"1ms..1h" jsonschema_description:"Time from the start after which it is off again."`
	IncidentID string   `json:"incidentId" rule:"incident,optional" jsonschema_description:"Incident that the extra fields are logged for."`
}
