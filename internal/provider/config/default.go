package config

import "time"

// Default returns the configuration of an empty file: every default of the
// design page, and empty where a value is required (design: config-and-cli).
// It is not valid by itself.
func Default() *Config {
	return &Config{
		Server: Server{
			SocketPath:           "/run/openbao-kms/kms.sock",
			SocketMode:           0o660,
			MetricsAddress:       "127.0.0.1:8081",
			HealthAddress:        "127.0.0.1:8082",
			MaxConcurrentStatus:  16,
			MaxConcurrentEncrypt: 32,
			MaxConcurrentDecrypt: 64,
		},
		OpenBao: OpenBao{Timeout: Duration(2 * time.Second)},
		Auth: Auth{
			Method:                MethodJWT,
			LoginBeforeExpiry:     Duration(5 * time.Minute),
			TokenRenewalIncrement: Duration(time.Hour),
		},
		State: State{Path: "/var/lib/openbao-kms/state/key-registry.json"},
		Bootstrap: Bootstrap{
			GraceTimeout:  Duration(time.Minute),
			RetryInterval: Duration(5 * time.Second),
		},
		Status: Status{
			ProbeInterval:      Duration(30 * time.Second),
			DeepProbeInterval:  Duration(5 * time.Minute),
			StatusMaxStaleness: Duration(2 * time.Minute),
		},
		Rotation: Rotation{
			Mode:                   ModeObserved,
			ActivationDelay:        Duration(2 * time.Minute),
			StableObservationCount: 3,
			RejectVersionRollback:  true,
		},
		Logging: Logging{
			Level:                "info",
			Format:               FormatJSON,
			LogOpenBaoRequestIDs: true,
			DebugCorrelation:     DebugCorrelation{TTL: Duration(15 * time.Minute)},
		},
	}
}

// The sections of the login methods get their defaults only when the file has
// them, so that the other one stays nil.

func (a *JWTAuth) setDefaults() {
	a.MinRemainingTTL = Duration(2 * time.Minute)
	a.ClockSkewLeeway = Duration(30 * time.Second)
}

func (a *CertAuth) setDefaults() {
	a.MinRemainingTTL = Duration(24 * time.Hour)
}
