// Package openbao is the connection to one OpenBao: one address, one trust
// anchor, one namespace, one pool of kept-alive connections. It sends single
// requests and turns whatever goes wrong into one cause of package fault
// (design: openbao).
//
// What never happens here: a request goes anywhere but to the configured
// address (no proxy, no redirect, no environment variable); a failed request is
// sent again, or sent later because OpenBao said when (Retry-After is not looked
// at); a certificate is accepted because the system trusts it; an answer is read
// beyond its limit; an error holds a URL, a token or a word that OpenBao wrote.
// net/http alone may pick another pooled connection when the one that it chose
// for a read turns out to be dead before a byte of the answer arrived. An
// encryption or a decryption goes out once, on one connection.
//
// While OpenBao cannot be reached, a circuit breaker answers data and probe
// calls at once (breaker.go). Logins and renewals pass beside it.
//
// Packages auth, transit and the diagnostics call it. It knows no token's life
// (auth) and no engine's answers (transit).
package openbao
