package config

import (
	"bytes"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/baokms/baokms/internal/provider/identity"
)

// Scope is the identity that every key_id is derived from (design: identity).
func (c *Config) Scope() identity.Scope {
	k := c.Transit.KeyIDScope
	return identity.Scope{
		ProviderName:      k.ProviderName,
		ClusterID:         k.ClusterID,
		OpenBaoInstanceID: c.OpenBao.InstanceID,
		OpenBaoNamespace:  c.OpenBao.Namespace,
		TransitMountID:    k.TransitMountID,
		KeyLineageID:      k.KeyLineageID,
	}
}

// Fingerprint identifies the configuration for comparison across nodes and with
// the state file (design: identity, configuration fingerprint). It is safe to
// print.
func (c *Config) Fingerprint() string {
	return c.Scope().Fingerprint(c.Transit.MountPath, c.Transit.KeyName)
}

// YAML writes the effective configuration, defaults and overrides included, in
// the order of the documentation. Parse reads it back to an equal Config.
//
// A configuration holds no secret, only the paths of files that do; but it
// holds OpenBao's mount paths and the key name, so it is for the operator's
// terminal and not for logs.
func (c *Config) YAML() ([]byte, error) {
	var root yaml.Node
	if err := encode(&root, reflect.ValueOf(c).Elem()); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encode turns a struct into a mapping node in the order of its fields. A nil
// section is left out.
func encode(n *yaml.Node, v reflect.Value) error {
	n.Kind = yaml.MappingNode
	for _, f := range fieldsOf(v.Type()) {
		value := v.Field(f.index)
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		child := new(yaml.Node)
		if f.isSection() {
			if err := encode(child, value); err != nil {
				return err
			}
		} else if err := child.Encode(plain(value)); err != nil {
			return err
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: f.name}, child)
	}
	return nil
}

// plain is a leaf as the YAML encoder should see it: types with a spelling of
// their own as text.
func plain(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case Duration:
		return x.String()
	case Mode:
		return x.String()
	case Group:
		return string(x)
	}
	return v.Interface()
}
