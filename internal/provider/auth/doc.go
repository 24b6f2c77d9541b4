// Package auth owns the provider's OpenBao token: how a login is made (Login,
// JWT) and how one token is shared, replaced before it ends and dropped when
// OpenBao rejects it (Session). Design: openbao, auth.
//
// What never happens here: a token or JWT is written anywhere or printed; a
// credential that fails its local check reaches OpenBao; two logins run at
// once; a login is repeated without a delay after it failed; a caller waits
// longer than its own context allows.
//
// serve builds one Session for the process, offline commands one for their
// run; transit calls it through an interface of its own.
package auth
