package transit

import (
	"context"
	"time"

	"github.com/baokms/baokms/internal/provider/openbao"
)

// Key is what the metadata of a Transit key says (design: openbao, metadata view
// and key profile). It has been checked for contradictions, not against the
// profile.
type Key struct {
	// Type is Transit's name of the key type.
	Type string
	// Latest is the newest version, at least 1; its creation time is known.
	Latest int
	// CreatedAtUnix has the creation time in Unix seconds, positive, of each
	// version that OpenBao lists: those from MinDecryption on.
	CreatedAtUnix map[int]int64
	// MinDecryption, MinEncryption and MinAvailable are the key's minimums, from
	// 0 to Latest. Zero sets no limit.
	MinDecryption, MinEncryption, MinAvailable int

	Derived, ConvergentEncryption          bool
	Exportable, AllowPlaintextBackup       bool
	DeletionAllowed                        bool
	SoftDeleted                            bool // false where the server does not know it
	SupportsEncryption, SupportsDecryption bool
	// AutoRotatePeriod is 0 for a key that never rotates by itself.
	AutoRotatePeriod time.Duration
}

// ReadKey reads the key's metadata. A missing or contradictory field is
// fault.AnswerInvalid, and the error names it.
func (c *Client) ReadKey(ctx context.Context) (Key, error) {
	answer, err := c.call(ctx, &c.metadata, nil)
	if err != nil {
		return Key{}, err
	}
	defer answer.Release()
	return decodeKey(answer.B)
}

// ReadUpsertDisabled reads whether the mount refuses to create a key on the
// first encryption. An answer that does not say so is an error.
func (c *Client) ReadUpsertDisabled(ctx context.Context) (bool, error) {
	answer, err := c.call(ctx, &c.upsert, nil)
	if err != nil {
		return false, err
	}
	defer answer.Release()
	return decodeUpsert(answer.B)
}

func decodeUpsert(answer []byte) (bool, error) {
	var a struct {
		Data struct {
			DisableUpsert required[bool] `json:"disable_upsert"`
		} `json:"data"`
	}
	if err := decode(openbao.UpsertRead, answer, &a); err != nil {
		return false, err
	}
	if !a.Data.DisableUpsert.set {
		return false, missing(openbao.UpsertRead, "data.disable_upsert")
	}
	return a.Data.DisableUpsert.value, nil
}
