// Package chart tests charts/baokms with Helm's own library: what it renders, what
// it refuses and says, and that a real API server takes it, upgrades it and lets
// it go without losing a plan (design: manager, Packaging).
//
// What may never differ from config/ (kinds, rights, the admission policy) is
// compared with config/. Objects are decoded before anything is asserted; the
// servers must be there: run make build servers first.
package chart
