package identity

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

const (
	aadVersion     = "v1"
	aadPurpose     = "kubernetes-etcd-kms-v2"
	providerMarker = "openbao-transit"
)

// Binding is one Transit version under one Scope, with everything that the two
// fix: computed once, immutable, safe for concurrent use.
type Binding struct {
	version       int
	createdAtUnix int64
	keyID         string
	keyIDHash     string
	aad           []byte
	aadBase64     string
	annotations   [annotationCount]string // expected values, by annotation index
}

// Bind derives the identity of one version. It fails when the scope is not
// valid or a number is not positive.
func (s Scope) Bind(version int, createdAtUnix int64) (*Binding, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if version < 1 {
		return nil, fmt.Errorf("identity: Transit version %d is not positive", version)
	}
	if createdAtUnix < 1 {
		return nil, fmt.Errorf("identity: creation time %d of Transit version %d is not positive", createdAtUnix, version)
	}
	b := &Binding{
		version:       version,
		createdAtUnix: createdAtUnix,
		keyID:         s.KeyID(version, createdAtUnix),
	}
	b.keyIDHash = Hash(b.keyID)
	aad, err := s.associatedData(b.keyIDHash, version)
	if err != nil {
		return nil, fmt.Errorf("identity: encode associated data: %w", err)
	}
	b.aad = aad
	b.aadBase64 = base64.StdEncoding.EncodeToString(aad)
	b.annotations = s.expectedAnnotations(b)
	return b, nil
}

// associatedDataV1 has the contract's key order. Marshalling a struct keeps it.
type associatedDataV1 struct {
	AADVersion    string `json:"aad_version"`
	Purpose       string `json:"purpose"`
	Provider      string `json:"provider"`
	ProviderName  string `json:"provider_name"`
	ClusterHash   string `json:"cluster_id_hash"`
	InstanceHash  string `json:"openbao_instance_hash"`
	NamespaceHash string `json:"openbao_namespace_hash,omitempty"`
	MountHash     string `json:"transit_mount_hash"`
	KeyHash       string `json:"transit_key_hash"`
	KeyIDHash     string `json:"key_id_hash"`
	KeyVersion    string `json:"key_version"`
}

func (s Scope) associatedData(keyIDHash string, version int) ([]byte, error) {
	aad := associatedDataV1{
		AADVersion:   aadVersion,
		Purpose:      aadPurpose,
		Provider:     providerMarker,
		ProviderName: s.ProviderName,
		ClusterHash:  Hash(s.ClusterID),
		InstanceHash: Hash(s.OpenBaoInstanceID),
		MountHash:    Hash(s.TransitMountID),
		KeyHash:      Hash(s.KeyLineageID),
		KeyIDHash:    keyIDHash,
		KeyVersion:   strconv.Itoa(version),
	}
	if s.OpenBaoNamespace != "" {
		aad.NamespaceHash = Hash(s.OpenBaoNamespace)
	}
	return json.Marshal(aad)
}

// Version is the Transit version, at least 1.
func (b *Binding) Version() int { return b.version }

// CreatedAtUnix is the version's creation time in OpenBao, in whole seconds.
func (b *Binding) CreatedAtUnix() int64 { return b.createdAtUnix }

// KeyID is the Kubernetes key_id.
func (b *Binding) KeyID() string { return b.keyID }

// KeyIDHash is h(key_id): the only form in which a key_id is logged or exported.
func (b *Binding) KeyIDHash() string { return b.keyIDHash }

// AssociatedData is a copy of the canonical bytes that Transit authenticates.
func (b *Binding) AssociatedData() []byte { return append([]byte(nil), b.aad...) }

// AssociatedDataBase64 is what goes into Transit's associated_data field, on
// every encrypt and decrypt: standard base64 of the canonical bytes.
func (b *Binding) AssociatedDataBase64() string { return b.aadBase64 }
