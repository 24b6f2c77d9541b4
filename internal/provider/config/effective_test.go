package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// everything sets every field that the jwt method allows.
var everything = []string{
	"server.socketPath=/run/a/kms.sock", `server.socketMode="0600"`, "server.socketGroup=1000", `server.metricsAddress=""`,
	`server.healthAddress="[::1]:9"`, "server.reportSocketPath=/run/b/report.sock", "server.maxConcurrentStatus=1", "server.maxConcurrentEncrypt=1024", "server.maxConcurrentDecrypt=2",
	"openbao.namespace=team/project", "openbao.timeout=1500ms",
	"auth.loginBeforeTokenExpiry=90s", "auth.tokenRenewalIncrement=90m", "auth.loginTimeout=10s",
	"auth.jwt.minRemainingTtl=0s", "auth.jwt.clockSkewLeeway=1s", `auth.jwt.expectedIssuer="https://issuer"`, `auth.jwt.expectedAudience="yes"`, `auth.jwt.expectedSubject="12"`,
	"state.path=/s/state.json", "bootstrap.graceTimeout=61s", "bootstrap.retryInterval=1s",
	"status.probeInterval=1s", "status.deepProbeInterval=2s", "status.statusMaxStaleness=3s",
	"rotation.mode=observed", "rotation.activationDelay=1h30m", "rotation.requireStableObservationCount=7", "rotation.rejectVersionRollback=false",
	"logging.level=debug", "logging.format=text", "logging.logOpenBaoRequestIDs=false",
	"logging.debugCorrelation.enabled=true", "logging.debugCorrelation.ttl=59m", "logging.debugCorrelation.incidentId=INC-7",
}

// The effective configuration reads back to the same value, as YAML by both
// readers and as JSON.
func TestRoundTrip(t *testing.T) {
	for name, edits := range map[string][]string{"least": nil, "cert": cert, "everything": everything} {
		t.Run(name, func(t *testing.T) {
			c := parsed(t, document(edits...))
			roundTrip(t, c)
		})
	}
}

func roundTrip(t *testing.T, c *Config, opts ...Option) {
	t.Helper()
	asYAML, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(asYAML, nil, opts...)
	if err != nil || !reflect.DeepEqual(c, again) {
		t.Fatalf("as YAML it reads back as %+v (%v), want %+v\n%s", again, err, c, asYAML)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	again, err = Parse(asJSON, nil, opts...)
	if err != nil || !reflect.DeepEqual(c, again) {
		t.Fatalf("as JSON it reads back as %+v (%v), want %+v\n%s", again, err, c, asJSON)
	}
}

// Parse and a plain strict decode agree on what everything means.
func TestStrictDecodeAgrees(t *testing.T) {
	doc := document(everything...)
	got := Default()
	got.Auth.JWT = new(JWTAuth)
	if err := yaml.UnmarshalStrict(doc, got); err != nil {
		t.Fatal(err)
	}
	if want := parsed(t, doc); !reflect.DeepEqual(got, want) {
		t.Errorf("strict decode gives %+v\nParse gives %+v", got, want)
	}
}

func TestScopeAndFingerprint(t *testing.T) {
	c := parsed(t, document("openbao.namespace=team"))
	scope := c.Scope()
	for name, v := range map[string][2]string{
		"provider":  {scope.ProviderName, "openbao-kms-workload-a"},
		"cluster":   {scope.ClusterID, "workload-a"},
		"instance":  {scope.OpenBaoInstanceID, "bao-prod-a"},
		"namespace": {scope.OpenBaoNamespace, "team"},
		"mount":     {scope.TransitMountID, "transit-prod-primary"},
		"lineage":   {scope.KeyLineageID, "01HXEXAMPLEKEYLINEAGEID"},
	} {
		if v[0] != v[1] {
			t.Errorf("%s is %q, want %q", name, v[0], v[1])
		}
	}
	if err := scope.Validate(); err != nil {
		t.Error(err)
	}

	// Identity, mount path and key name decide the fingerprint; nothing else does.
	plain := parsed(t, document())
	base := plain.Fingerprint()
	for _, c := range fieldCases {
		inside := c.field == "openbao.instanceId" || c.field == "openbao.namespace" ||
			c.field == "transit.mountPath" || c.field == "transit.keyName" || strings.HasPrefix(c.field, "transit.keyIdScope.")
		if editsFor(c.field) != nil {
			continue
		}
		for raw := range c.accepted {
			cfg := parsed(t, document(c.field+"="+raw))
			same := valueAt(t, cfg, c.field) == valueAt(t, plain, c.field)
			if changed := cfg.Fingerprint() != base; changed != (inside && !same) {
				t.Errorf("%s: %s changes the fingerprint: %v", c.field, raw, changed)
			}
		}
	}
}
