package main

import (
	credjwt "github.com/hashicorp/vault-plugin-auth-jwt"
	"github.com/hashicorp/vault/audit"
	auditfile "github.com/hashicorp/vault/builtin/audit/file"
	credcert "github.com/hashicorp/vault/builtin/credential/cert"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
)

// What is built in. Nothing else can be mounted.

func auditDevices() map[string]audit.Factory {
	return map[string]audit.Factory{"file": auditfile.Factory}
}

func loginMethods() map[string]logical.Factory {
	return map[string]logical.Factory{"jwt": credjwt.Factory, "cert": credcert.Factory}
}

func secretsEngines() map[string]logical.Factory {
	return map[string]logical.Factory{"transit": transit.Factory}
}

// plugins is the registry of built-in plugins that the core asks when something is mounted. Nothing in it is deprecated.
type plugins struct{}

func (plugins) factories(kind consts.PluginType) map[string]logical.Factory {
	switch kind {
	case consts.PluginTypeCredential:
		return loginMethods()
	case consts.PluginTypeSecrets:
		return secretsEngines()
	default:
		return nil
	}
}

// Get returns what makes the plugin of that name and kind.
func (p plugins) Get(name string, kind consts.PluginType) (func() (interface{}, error), bool) {
	factory, ok := p.factories(kind)[name]
	if !ok {
		return nil, false
	}
	return func() (interface{}, error) { return factory, nil }, true
}

// Contains says whether the plugin is built in.
func (p plugins) Contains(name string, kind consts.PluginType) bool {
	_, ok := p.factories(kind)[name]
	return ok
}

// Keys lists the plugins of a kind.
func (p plugins) Keys(kind consts.PluginType) []string {
	var names []string
	for name := range p.factories(kind) {
		names = append(names, name)
	}
	return names
}

// DeprecationStatus answers "supported" for everything that is built in.
func (p plugins) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	if !p.Contains(name, kind) {
		return consts.Unknown, false
	}
	return consts.Supported, true
}
