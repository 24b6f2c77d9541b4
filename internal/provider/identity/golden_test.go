package identity

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write vectors that testdata lacks; existing ones are never changed")

// A vector is one line of the wire contract: inputs and every byte that they
// fix. The first one is the design page's own.
type vector struct {
	Name          string            `json:"name"`
	Scope         Scope             `json:"scope"`
	MountPath     string            `json:"mountPath"`
	KeyName       string            `json:"keyName"`
	Version       int               `json:"version"`
	CreatedAtUnix int64             `json:"createdAtUnix"`
	KeyID         string            `json:"keyId"`
	KeyIDHash     string            `json:"keyIdHash"`
	AAD           string            `json:"associatedData"`
	AADBase64     string            `json:"associatedDataBase64"`
	Annotations   map[string]string `json:"annotations"`
	Fingerprint   string            `json:"fingerprint"`
}

const vectorPluginVersion = "v1.2.3"

func (v *vector) derive(t *testing.T) {
	t.Helper()
	b, err := v.Scope.Bind(v.Version, v.CreatedAtUnix)
	if err != nil {
		t.Fatalf("Bind: %v", err)
	}
	v.KeyID, v.KeyIDHash = b.KeyID(), b.KeyIDHash()
	v.AAD, v.AADBase64 = string(b.AssociatedData()), b.AssociatedDataBase64()
	v.Annotations = map[string]string{}
	for key, value := range b.Annotations(vectorPluginVersion) {
		v.Annotations[key] = string(value)
	}
	v.Fingerprint = v.Scope.Fingerprint(v.MountPath, v.KeyName)
}

func TestGoldenVectors(t *testing.T) {
	const file = "testdata/vectors.json"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	for i := range vectors {
		want := vectors[i]
		t.Run(want.Name, func(t *testing.T) {
			got := want
			got.derive(t)
			if want.KeyID == "" && *update {
				vectors[i] = got
				return
			}
			a, _ := json.MarshalIndent(got, "", "  ")
			b, _ := json.MarshalIndent(want, "", "  ")
			if string(a) != string(b) {
				t.Errorf("the wire contract changed: data in etcd would become unreadable\ngot  %s\nwant %s", a, b)
			}
		})
	}
	if *update {
		out, _ := json.MarshalIndent(vectors, "", "  ")
		if err := os.WriteFile(file, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDesignVector states the page's vector in code, so that no edit of
// testdata can move it.
func TestDesignVector(t *testing.T) {
	s := Scope{
		ProviderName:      "openbao-kms-workload-a",
		ClusterID:         "workload-a",
		OpenBaoInstanceID: "bao-prod-a",
		TransitMountID:    "transit-prod-primary",
		KeyLineageID:      "01HXEXAMPLEKEYLINEAGEID",
	}
	b, err := s.Bind(3, 1715803200)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.KeyID(), "obk2.ig7zS9_yvQrdlcvWgJUhA5q_fQYupc5jRX5MzhAMQSk"; got != want {
		t.Errorf("key_id = %s, want %s", got, want)
	}
	if got, want := b.KeyIDHash(), "qCXYChOIPSWs7scJIduEDiNOYvEUJtFS1Rsbz1eAWY4"; got != want {
		t.Errorf("key_id hash = %s, want %s", got, want)
	}
	want := `{"aad_version":"v1","purpose":"kubernetes-etcd-kms-v2","provider":"openbao-transit",` +
		`"provider_name":"openbao-kms-workload-a","cluster_id_hash":"aJ87hdnMZbDZpJ86CnErao3FRzUhv5o8bqc5tCvFGyY",` +
		`"openbao_instance_hash":"` + Hash("bao-prod-a") + `","transit_mount_hash":"` + Hash("transit-prod-primary") +
		`","transit_key_hash":"` + Hash("01HXEXAMPLEKEYLINEAGEID") +
		`","key_id_hash":"qCXYChOIPSWs7scJIduEDiNOYvEUJtFS1Rsbz1eAWY4","key_version":"3"}`
	if got := string(b.AssociatedData()); got != want {
		t.Errorf("associated data\ngot  %s\nwant %s", got, want)
	}
}
