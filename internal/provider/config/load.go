package config

import (
	"errors"
	"os"
	"reflect"

	"sigs.k8s.io/yaml"

	"github.com/baokms/baokms/internal/provider/securefile"
)

// MaxSize is the size in bytes up to which a configuration file is read.
const MaxSize = 128 << 10

// The environment variables that the provider reads; there are no others
// (design: config-and-cli). An empty one counts as not set.
const (
	EnvConfig         = "BAO_KMS_PROVIDER_CONFIG"
	EnvLogLevel       = "BAO_KMS_PROVIDER_LOG_LEVEL"
	EnvMetricsAddress = "BAO_KMS_PROVIDER_METRICS_ADDRESS"
	EnvHealthAddress  = "BAO_KMS_PROVIDER_HEALTH_ADDRESS"
)

// Option changes how a configuration is judged.
type Option func(*options)

type options struct {
	plainHTTP bool
	getenv    func(string) string
}

// AllowPlainHTTP accepts http:// in openbao.address for a loopback address. It
// is for serve --dev only.
func AllowPlainHTTP(o *options) { o.plainHTTP = true }

// Getenv replaces the process's environment for Load. It has no effect on
// Parse, which is given its own.
func Getenv(getenv func(string) string) Option {
	return func(o *options) { o.getenv = getenv }
}

// Path is where the configuration is: the flag's value, else EnvConfig, else
// DefaultPath.
func Path(flag string, getenv func(string) string) string {
	if flag != "" {
		return flag
	}
	if p := getenv(EnvConfig); p != "" {
		return p
	}
	return DefaultPath
}

// fileRule is what the configuration file must be.
var fileRule = securefile.Rule{What: "configuration file", Forbid: securefile.Private, MaxSize: MaxSize}

// Load reads, completes and judges the file at path, which must be absolute,
// regular, not a link, owned by root or the process's user, not writable by the
// group and closed to others. Every failure is an *Error.
func Load(path string, opts ...Option) (*Config, error) {
	o := newOptions(opts)
	data, err := securefile.Read(path, fileRule)
	if err != nil {
		return nil, &Error{File: path, Err: err}
	}
	c, err := parse(data, o)
	var e *Error
	if errors.As(err, &e) {
		e.File = path
	}
	return c, err
}

// Parse judges a configuration in memory; getenv is asked for the overrides
// and may be nil. Every failure is an *Error that lists all problems.
func Parse(data []byte, getenv func(string) string, opts ...Option) (*Config, error) {
	o := newOptions(opts)
	o.getenv = getenv
	if getenv == nil {
		o.getenv = func(string) string { return "" }
	}
	return parse(data, o)
}

func newOptions(opts []Option) options {
	o := options{getenv: os.Getenv}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func parse(data []byte, o options) (*Config, error) {
	var r report
	c := Default()
	if r.read(data, c) {
		r.readAgain(data, c)
		r.override(c, o.getenv)
		r.relate(c, o)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// readAgain decodes the document a second time, strictly and by the other YAML
// reader, and refuses a document that means something else to it.
func (r *report) readAgain(data []byte, c *Config) {
	if len(r.problems) > 0 {
		return
	}
	again := Default()
	if c.Auth.JWT != nil {
		again.Auth.JWT = new(JWTAuth)
		again.Auth.JWT.setDefaults()
	}
	if c.Auth.Cert != nil {
		again.Auth.Cert = new(CertAuth)
		again.Auth.Cert.setDefaults()
	}
	if err := yaml.UnmarshalStrict(data, again); err != nil || !reflect.DeepEqual(c, again) {
		r.add("the file", 0, "holds YAML that different readers understand differently",
			"put every text in double quotes and use no special YAML features")
	}
}

// override applies the environment. A value from it is judged by the rules of
// its field.
func (r *report) override(c *Config, getenv func(string) string) {
	for _, v := range []struct{ variable, field string }{
		{EnvLogLevel, "logging.level"},
		{EnvMetricsAddress, "server.metricsAddress"},
		{EnvHealthAddress, "server.healthAddress"},
	} {
		if text := getenv(v.variable); text != "" {
			f, value := lookup(c, v.field)
			if fl := f.set(value, text, "!!str"); fl != nil {
				r.add(v.field, 0, "has a bad value in the environment variable "+v.variable+": it "+fl.text, fl.fix)
			}
		}
	}
}
