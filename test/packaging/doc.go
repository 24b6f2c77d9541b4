// Package packaging holds what is installed against what the products are: the
// chart, the kustomizations, the health scripts and the dashboards, rendered by
// the tools that people install with and tried on the real servers.
//
// It is a module of its own, so that the products' module never carries those
// tools. Nothing of it is ever part of the product.
package packaging
