package openbao

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/baokms/baokms/internal/provider/fault"
)

// statusFailure classifies an answer that is not 2xx (design: openbao, what the
// server really answers). OpenBao's text is looked at only where the status
// tells too little, and never becomes part of the error.
func (x exchange) statusFailure(status int, body []byte) *fault.Error {
	cause, detail := classify(x.op, status, body)
	f := fault.New(cause, x.op.Words(), "%s", detail)
	f.HTTPStatus = status
	switch {
	case cause == fault.Unauthenticated && status == 403 && says(body, textDenied):
		f.Err = ErrDenied
	case cause == fault.KeyMissing && says(body, textNoRoute):
		f.Err = ErrNoMount
	}
	return f
}

// ErrDenied is wrapped by a fault.Unauthenticated whose text says that the token
// is good and the policy denies the request. OpenBao answers both with 403. It is
// a hint for what an operator is told; what is done about a rejection does not
// depend on it.
var ErrDenied = errors.New("the policy denies the request")

// ErrNoMount is wrapped by a fault.KeyMissing where not even the mount is there.
// It is a hint for what an operator is told.
var ErrNoMount = errors.New("nothing is mounted there")

func classify(op Operation, status int, body []byte) (fault.Cause, string) {
	switch {
	case status >= 300 && status < 400:
		return fault.Unavailable, "it answered with a redirect, which is refused: let the standby nodes forward requests, " +
			"or set openbao.address to the active node"
	case status == 429:
		return fault.RateLimited, "raise the rate limit quota that covers this provider"
	case status == 422:
		// Seen while a quota was being removed: the request was not looked at.
		return fault.RateLimited, "it could not apply a rate limit quota: see OpenBao's log, and correct the quota if this goes on"
	case status == 503:
		return fault.Sealed, "unseal it, or check the load balancer in front of it"
	case status >= 500:
		return fault.Unavailable, "it failed on its own side: see OpenBao's log"
	case status == 408:
		return fault.Unavailable, "something gave up waiting for the request: check the network path and the load balancer in front of OpenBao"
	case status < 400:
		return fault.Unavailable, "the answer makes no sense: check what answers at openbao.address"
	case op.isLogin():
		return classifyLogin(op, status, body)
	case status == 401 || status == 403:
		return fault.Unauthenticated, "if a new login does not help, compare the role's policy with the output of `bao-kms-provider policy openbao`"
	case status == 404:
		return classifyMissing(op, body)
	case status == 400 && (op == Encrypt || op == Decrypt):
		return classifyTransit(op, body)
	}
	return fault.RequestRefused, "see OpenBao's audit log"
}

func classifyLogin(op Operation, status int, body []byte) (fault.Cause, string) {
	switch {
	case status == 404 && says(body, textNoRoute):
		return fault.LoginRejected, "no login method is mounted there: correct " + op.mountField() + " or openbao.namespace"
	case status != 400 && status != 401 && status != 403:
		return fault.LoginRejected, "OpenBao refused the login: see its audit log, and check " + op.mountField()
	case op == JWTLogin && status == 403:
		return fault.LoginRejected, "OpenBao refused the JWT, the role or the auth mount: " +
			"run bao auth list (is a JWT method mounted at auth.jwt.mountPath, in openbao.namespace?), then " + lookAtJWTLogin
	case op == JWTLogin:
		return fault.LoginRejected, "OpenBao refused the JWT, the role or the auth mount: " + lookAtJWTLogin
	case status == 403:
		return fault.LoginRejected, "OpenBao refused the login: " +
			"run bao auth list (is a certificate method mounted at auth.cert.mountPath, in openbao.namespace?), then " + lookAtCertLogin
	}
	return fault.LoginRejected, "OpenBao refused the login: " + lookAtCertLogin
}

// Where to look when OpenBao refuses a login; its answer does not say which it
// was.
const (
	lookAtJWTLogin = "run bao read on the role in auth.jwt.role (is it there, do its bound claims fit the JWT's?) and on the config of the auth mount " +
		"(jwt_validation_pubkeys, or the discovery URL, must be of the key that signs this node's JWTs, and bound_issuer their iss); OpenBao's log has its reason"
	lookAtCertLogin = "run bao read on the role in auth.cert.name (is it there, has its certificate signed this node's, do its allowed names fit?); OpenBao's log has its reason"
)

// Fragments of OpenBao's texts, seen on 2.6.2. textsCiphertext covers Transit's
// refusals of a ciphertext as such: the oldest forks word the first of them
// "invalid ciphertext: unable to decrypt".
const (
	textNoRoute    = "no handler for route"
	textNoKey      = "encryption key not found"
	textTooNew     = "version is too new"
	textDisallowed = "version is disallowed by policy"
	// A token that is not known is just "permission denied".
	textDenied = "1 error occurred:\n\t* permission denied"
)

var (
	textsCiphertext = []string{
		"message authentication failed",
		"invalid ciphertext",
	}
	textsVersion = []string{
		"requested version for encryption is higher than the latest key version",
		"requested version for encryption is less than the minimum encryption key version",
	}
)

// createKey is the next step where the Transit key is not there.
const createKey = "create the key before the first start, or correct transit.keyName; a key that was in use must be restored from a backup of OpenBao, never created again"

func classifyMissing(op Operation, body []byte) (fault.Cause, string) {
	switch {
	case op == TokenRenewSelf || op == CapabilitiesSelf:
		return fault.RequestRefused, "it does not know this path: check openbao.namespace and what answers at openbao.address"
	case says(body, textNoRoute):
		return fault.KeyMissing, "nothing is mounted there: correct " + op.mountField() + " or openbao.namespace"
	case op == UpsertRead:
		return fault.KeyMissing, "the mount does not know this setting: it must be a Transit mount of a current OpenBao"
	}
	return fault.KeyMissing, createKey
}

func classifyTransit(op Operation, body []byte) (fault.Cause, string) {
	switch {
	case says(body, textNoKey):
		return fault.KeyMissing, createKey
	case op == Decrypt && says(body, textDisallowed):
		return fault.CiphertextRefused, "its version is below the key's min_decryption_version: lower that until everything has been rewritten"
	case op == Decrypt && says(body, textTooNew):
		return fault.CiphertextRefused, "its version is above the key's latest: restore OpenBao from a backup that has it"
	case op == Decrypt && says(body, textsCiphertext...):
		return fault.CiphertextRefused, "it was altered, or comes from another key or cluster"
	case op == Encrypt && says(body, textsVersion...):
		return fault.RequestRefused, "the key version is outside the key's limits: check its min_encryption_version"
	}
	return fault.RequestRefused, "see OpenBao's audit log"
}

// says reports whether one of OpenBao's error texts in body contains one of the
// fragments. A body of another form says nothing.
func says(body []byte, fragments ...string) bool {
	var answer struct{ Errors []string }
	if json.Unmarshal(body, &answer) != nil {
		return false
	}
	for _, text := range answer.Errors {
		for _, fragment := range fragments {
			if strings.Contains(text, fragment) {
				return true
			}
		}
	}
	return false
}
