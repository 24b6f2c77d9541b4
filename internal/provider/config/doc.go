// Package config is the provider's configuration: the file, its defaults, the
// four environment overrides, validation and the JSON Schema (design:
// config-and-cli).
//
// The structs in config.go are the one source of everything: field names,
// defaults (Default), limits and texts (their tags). The reader (tree.go), the
// rules (rules.go, relations.go) and the schema (schema.go) are driven by them.
//
// A configuration is refused as a whole: Load and Parse either return a Config
// that every rule accepts or an *Error that lists every problem at once, in the
// order of the file. Values from the file never appear in a problem, only field
// names, line numbers and limits: a token pasted into the wrong field, a mount
// path or a key name must not reach a log (design: overview, invariant 10).
// Secrets and identity never come from the environment.
//
// Two YAML readers are used on purpose. sigs.k8s.io/yaml decodes; it stops at
// the first unknown field and knows neither lines nor paths. So the node tree
// of go.yaml.in/yaml/v3 is walked first, beside the struct types, to report
// everything with line and path. A document that the two read differently is
// refused.
//
// Any package of the provider may import config. It reads the configuration
// file and, for Group.GID, the system's group list; it opens no other file,
// starts nothing and logs nothing.
package config
