package auth

import (
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// algorithms are the asymmetric signatures that a JWT may carry. The signature
// itself is OpenBao's to verify; "none" and shared keys are never right.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512,
	jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512,
	jose.EdDSA,
	jose.MLDSA44, jose.MLDSA65, jose.MLDSA87,
}

// checkJWT makes the local checks of design openbao, auth, at the moment now.
// Its errors name the claim and the next step, never a claim's value.
func checkJWT(token string, o JWTOptions, now time.Time) error {
	parsed, err := jwt.ParseSigned(token, algorithms)
	var algorithm *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &algorithm):
		return rejected("its signature algorithm is not an asymmetric one: have it issued with RS256, ES256, EdDSA or the like")
	case err != nil:
		return rejected("it is not a signed JWT in compact form: check what writes auth.jwt.jwtFile")
	}
	var claims jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return rejected("its claims are malformed: check what writes auth.jwt.jwtFile")
	}
	if err := checkTimes(claims, o, now); err != nil {
		return err
	}
	switch {
	case o.Issuer != "" && claims.Issuer != o.Issuer:
		return rejected("claim iss differs from auth.jwt.expectedIssuer: correct the one that is wrong (" + showClaims + ")")
	case o.Audience != "" && !claims.Audience.Contains(o.Audience):
		return rejected("claim aud does not hold auth.jwt.expectedAudience: correct the one that is wrong (" + showClaims + ")")
	case o.Subject != "" && claims.Subject != o.Subject:
		return rejected("claim sub differs from auth.jwt.expectedSubject: correct the one that is wrong (" + showClaims + ")")
	}
	return nil
}

func checkTimes(claims jwt.Claims, o JWTOptions, now time.Time) error {
	switch {
	case claims.Expiry == nil:
		return rejected("claim exp is missing: have it issued with an expiry")
	case now.After(claims.Expiry.Time().Add(o.Leeway)):
		return rejected("claim exp: it has expired: replace the file auth.jwt.jwtFile, or correct this host's clock")
	case o.MinRemaining > 0 && claims.Expiry.Time().Sub(now) < o.MinRemaining:
		return rejected("claim exp: it expires in less than auth.jwt.minRemainingTtl: replace the file auth.jwt.jwtFile earlier")
	case claims.NotBefore != nil && now.Add(o.Leeway).Before(claims.NotBefore.Time()):
		return rejected("claim nbf: it is not valid yet: correct this host's clock or the issuer's")
	case claims.IssuedAt != nil && now.Add(o.Leeway).Before(claims.IssuedAt.Time()):
		return rejected("claim iat: it was issued in the future: correct this host's clock or the issuer's")
	}
	return nil
}

// showClaims is how a person sees a JWT's claims; FILE is theirs to fill in.
const showClaims = "cut -d. -f2 FILE | tr '_-' '/+' | base64 -d 2>/dev/null shows its claims"

func rejected(detail string) error { return local(opCheckJWT, "%s", detail) }
