// Package serve composes the provider: it makes every part from one
// configuration, starts them in the order that design/kms-service gives, and
// ends them again.
//
// It holds no logic of its own. What may never happen here: the KMS socket
// exists before the first probes have succeeded; a credential is read while the
// process could be dumped; a part outlives Run. Only the serve command calls it,
// and no package imports it.
package serve
