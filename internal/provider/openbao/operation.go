package openbao

// Operation names a kind of request: the value of the metric label "operation"
// (design: observability, metrics).
type Operation string

// The operations. No other value is ever observed.
const (
	JWTLogin         Operation = "jwt_login"
	CertLogin        Operation = "cert_login"
	TokenRenewSelf   Operation = "token_renew_self"
	MetadataRead     Operation = "transit_metadata_read"
	UpsertRead       Operation = "transit_disable_upsert_read"
	Encrypt          Operation = "transit_encrypt"
	Decrypt          Operation = "transit_decrypt"
	CapabilitiesSelf Operation = "capabilities_self"
)

// healthRead is never observed.
const healthRead Operation = "health"

// Sizes of answers in bytes that are still read (design: openbao, client).
const (
	limitError    = 64 << 10
	limitMetadata = 4 << 20
	limitAnswer   = 256 << 10
)

// Words returns what the operation does, in the words of an error text: "log
// in to OpenBao".
func (o Operation) Words() string {
	switch o {
	case JWTLogin, CertLogin:
		return "log in to OpenBao"
	case TokenRenewSelf:
		return "renew the OpenBao token"
	case MetadataRead:
		return "read the Transit key's metadata"
	case UpsertRead:
		return "read the Transit mount's disable_upsert"
	case Encrypt:
		return "encrypt with Transit"
	case Decrypt:
		return "decrypt with Transit"
	case CapabilitiesSelf:
		return "read the token's capabilities"
	case healthRead:
		return "ask OpenBao how it is"
	}
	return "call OpenBao"
}

func (o Operation) isLogin() bool { return o == JWTLogin || o == CertLogin }

// mountField names the configuration field that the operation's path starts
// with.
func (o Operation) mountField() string {
	switch o {
	case JWTLogin:
		return "auth.jwt.mountPath"
	case CertLogin:
		return "auth.cert.mountPath"
	}
	return "transit.mountPath"
}

// limit is the largest successful answer in bytes.
func (o Operation) limit() int64 {
	if o == MetadataRead {
		return limitMetadata
	}
	return limitAnswer
}
