package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// What an administrator does to a running Transit, all with the root token.

// KeyInfo is what OpenBao says about a key. Versions below MinDecryptionVersion are not in Created.
type KeyInfo struct {
	Type                 string
	LatestVersion        int
	MinDecryptionVersion int
	MinEncryptionVersion int
	// Created is the creation time of each version, cut to seconds.
	Created map[int]time.Time
	// Fields is the whole answer, for what is not above.
	Fields map[string]any
}

// ReadKey reads a key of the Transit mount.
func (t *Transit) ReadKey(ctx context.Context, key string) (KeyInfo, error) {
	var raw json.RawMessage
	if err := t.Root().data(ctx, http.MethodGet, t.options.Mount+"/keys/"+key, nil, &raw); err != nil {
		return KeyInfo{}, fmt.Errorf("reading a Transit key: %w", err)
	}
	var answer struct {
		Type          string                     `json:"type"`
		Latest        int                        `json:"latest_version"`
		MinDecryption int                        `json:"min_decryption_version"`
		MinEncryption int                        `json:"min_encryption_version"`
		Keys          map[string]json.RawMessage `json:"keys"`
	}
	info := KeyInfo{Created: map[int]time.Time{}}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return KeyInfo{}, fmt.Errorf("decoding a Transit key: %w", err)
	}
	if err := json.Unmarshal(raw, &info.Fields); err != nil {
		return KeyInfo{}, fmt.Errorf("decoding a Transit key: %w", err)
	}
	info.Type, info.LatestVersion = answer.Type, answer.Latest
	info.MinDecryptionVersion, info.MinEncryptionVersion = answer.MinDecryption, answer.MinEncryption
	for version, value := range answer.Keys {
		n, err := strconv.Atoi(version)
		if err != nil {
			return KeyInfo{}, fmt.Errorf("decoding a Transit key: the version %q is no number", version)
		}
		if info.Created[n], err = creationTime(value); err != nil {
			return KeyInfo{}, fmt.Errorf("decoding a Transit key, version %d: %w", n, err)
		}
	}
	return info, nil
}

// creationTime reads the two forms in which creation times come: seconds for symmetric keys, an object with an RFC 3339 time for others.
func creationTime(value json.RawMessage) (time.Time, error) {
	var seconds int64
	if json.Unmarshal(value, &seconds) == nil {
		return time.Unix(seconds, 0).UTC(), nil
	}
	var object struct {
		Created time.Time `json:"creation_time"`
	}
	if err := json.Unmarshal(value, &object); err != nil {
		return time.Time{}, fmt.Errorf("its creation time has an unknown form: %w", err)
	}
	return object.Created.UTC().Truncate(time.Second), nil
}

// CreateKey makes a key on the Transit mount with parameters such as type, derived or exportable.
func (t *Transit) CreateKey(ctx context.Context, key string, parameters map[string]any) error {
	if err := t.Root().Do(ctx, http.MethodPost, t.options.Mount+"/keys/"+key, parameters, nil); err != nil {
		return fmt.Errorf("creating a Transit key: %w", err)
	}
	return nil
}

// ConfigureKey changes a key's configuration, such as min_decryption_version, min_encryption_version, deletion_allowed or exportable.
func (t *Transit) ConfigureKey(ctx context.Context, key string, fields map[string]any) error {
	if err := t.Root().Do(ctx, http.MethodPost, t.options.Mount+"/keys/"+key+"/config", fields, nil); err != nil {
		return fmt.Errorf("configuring a Transit key: %w", err)
	}
	return nil
}

// DeleteKey allows a key's deletion and deletes it, with all that was encrypted with it.
func (t *Transit) DeleteKey(ctx context.Context, key string) error {
	if err := t.ConfigureKey(ctx, key, map[string]any{"deletion_allowed": true}); err != nil {
		return err
	}
	if err := t.Root().Do(ctx, http.MethodDelete, t.options.Mount+"/keys/"+key, nil, nil); err != nil {
		return fmt.Errorf("deleting a Transit key: %w", err)
	}
	return nil
}

// Rotate makes a new version of a key and returns its number.
func (t *Transit) Rotate(ctx context.Context, key string) (int, error) {
	if err := t.Root().Do(ctx, http.MethodPost, t.options.Mount+"/keys/"+key+"/rotate", nil, nil); err != nil {
		return 0, fmt.Errorf("rotating a Transit key: %w", err)
	}
	info, err := t.ReadKey(ctx, key)
	return info.LatestVersion, err
}

// AllowUpsert says whether encrypting with a key that does not exist makes it: the mount's disable_upsert, negated.
func (t *Transit) AllowUpsert(ctx context.Context, allowed bool) error {
	in := map[string]any{"disable_upsert": !allowed}
	if err := t.Root().Do(ctx, http.MethodPost, t.options.Mount+"/config/keys", in, nil); err != nil {
		return fmt.Errorf("configuring the Transit mount: %w", err)
	}
	return nil
}

// WritePolicy writes a policy; PolicyName is the one that logins get, and a change holds for tokens that are out already.
func (t *Transit) WritePolicy(ctx context.Context, name, text string) error {
	in := map[string]any{"policy": text}
	if err := t.Root().Do(ctx, http.MethodPut, "sys/policies/acl/"+name, in, nil); err != nil {
		return fmt.Errorf("writing a policy: %w", err)
	}
	return nil
}

// RevokeAccessor revokes the token with that accessor.
func (t *Transit) RevokeAccessor(ctx context.Context, accessor string) error {
	in := map[string]any{"accessor": accessor}
	if err := t.Root().Do(ctx, http.MethodPost, "auth/token/revoke-accessor", in, nil); err != nil {
		return fmt.Errorf("revoking a token: %w", err)
	}
	return nil
}

// RevokeLogins revokes every token that a login at JWTMount or CertMount gave, and returns how many that were. So a test takes a
// provider's token away without knowing it.
func (t *Transit) RevokeLogins(ctx context.Context) (int, error) {
	var list struct {
		Keys []string `json:"keys"`
	}
	if err := t.Root().data(ctx, "LIST", "auth/token/accessors", nil, &list); err != nil {
		return 0, fmt.Errorf("listing the tokens: %w", err)
	}
	revoked := 0
	for _, accessor := range list.Keys {
		var token struct {
			Path string `json:"path"`
		}
		in := map[string]any{"accessor": accessor}
		if err := t.Root().data(ctx, http.MethodPost, "auth/token/lookup-accessor", in, &token); err != nil {
			// It may have ended since the list was made.
			continue
		}
		if !strings.HasPrefix(token.Path, JWTMount+"/") && !strings.HasPrefix(token.Path, CertMount+"/") {
			continue
		}
		if err := t.RevokeAccessor(ctx, accessor); err != nil {
			return revoked, err
		}
		revoked++
	}
	return revoked, nil
}

// LimitRate answers 429 on a path (a mount such as "transit-kms", or "" for all) beyond so many requests in a second. name is for
// UnlimitRate. OpenBao's own paths under sys/ that are needed to lift the limit are exempt.
func (t *Transit) LimitRate(ctx context.Context, name, path string, perSecond float64) error {
	in := map[string]any{"path": path, "rate": perSecond, "interval": "1s"}
	if err := t.Root().Do(ctx, http.MethodPost, "sys/quotas/rate-limit/"+name, in, nil); err != nil {
		return fmt.Errorf("adding a rate limit: %w", err)
	}
	return nil
}

// UnlimitRate removes a limit.
func (t *Transit) UnlimitRate(ctx context.Context, name string) error {
	if err := t.Root().Do(ctx, http.MethodDelete, "sys/quotas/rate-limit/"+name, nil, nil); err != nil {
		return fmt.Errorf("removing a rate limit: %w", err)
	}
	return nil
}
