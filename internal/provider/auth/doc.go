// Package auth owns the provider's OpenBao token: how a login is made (Login,
// JWT, Cert) and how one token is shared, renewed or replaced before it ends and
// replaced when OpenBao rejects it (Session). Design: openbao, auth.
//
// What never happens here: a token, JWT or private key is written anywhere or
// printed; a credential that fails its local check reaches OpenBao; two logins
// run at once; a login is repeated without a delay after it failed, or a
// recovery after another; one renewal follows another that did not help; a
// caller whose token is valid waits for a renewal; a caller waits longer than
// its own context allows.
//
// serve builds one Session for the process, offline commands one for their
// run; transit calls it through an interface of its own.
package auth
