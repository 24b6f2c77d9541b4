package transit

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/baokms/baokms/internal/provider/openbao"
)

type keyData struct {
	Type          required[string]   `json:"type"`
	Keys          required[versions] `json:"keys"`
	Latest        required[int]      `json:"latest_version"`
	MinDecryption required[int]      `json:"min_decryption_version"`
	MinEncryption required[int]      `json:"min_encryption_version"`
	MinAvailable  required[int]      `json:"min_available_version"`

	Derived required[bool] `json:"derived"`
	// Only a derived key has it.
	Convergent           required[bool] `json:"convergent_encryption"`
	Exportable           required[bool] `json:"exportable"`
	AllowPlaintextBackup required[bool] `json:"allow_plaintext_backup"`
	DeletionAllowed      required[bool] `json:"deletion_allowed"`
	// Older servers do not know it.
	SoftDeleted        required[bool]   `json:"soft_deleted"`
	SupportsEncryption required[bool]   `json:"supports_encryption"`
	SupportsDecryption required[bool]   `json:"supports_decryption"`
	AutoRotatePeriod   required[period] `json:"auto_rotate_period"`
}

// decodeKey decodes and checks the answer to a read of the key.
func decodeKey(answer []byte) (Key, error) {
	var a struct {
		Data keyData `json:"data"`
	}
	if err := decode(openbao.MetadataRead, answer, &a); err != nil {
		return Key{}, err
	}
	d := &a.Data
	if field := d.missing(); field != "" {
		return Key{}, missing(openbao.MetadataRead, "data."+field)
	}
	k := Key{
		Type:                 d.Type.value,
		Latest:               d.Latest.value,
		CreatedAtUnix:        d.Keys.value,
		MinDecryption:        d.MinDecryption.value,
		MinEncryption:        d.MinEncryption.value,
		MinAvailable:         d.MinAvailable.value,
		Derived:              d.Derived.value,
		ConvergentEncryption: d.Convergent.value,
		Exportable:           d.Exportable.value,
		AllowPlaintextBackup: d.AllowPlaintextBackup.value,
		DeletionAllowed:      d.DeletionAllowed.value,
		SoftDeleted:          d.SoftDeleted.value,
		SupportsEncryption:   d.SupportsEncryption.value,
		SupportsDecryption:   d.SupportsDecryption.value,
		AutoRotatePeriod:     time.Duration(d.AutoRotatePeriod.value),
	}
	if err := k.contradiction(); err != nil {
		return Key{}, err
	}
	return k, nil
}

// missing names the first required field that is not there.
func (d *keyData) missing() string {
	for _, f := range []struct {
		set  bool
		name string
	}{
		{d.Type.set, "type"},
		{d.Keys.set, "keys"},
		{d.Latest.set, "latest_version"},
		{d.MinDecryption.set, "min_decryption_version"},
		{d.MinEncryption.set, "min_encryption_version"},
		{d.MinAvailable.set, "min_available_version"},
		{d.Derived.set, "derived"},
		{d.Convergent.set || !d.Derived.value, "convergent_encryption"},
		{d.Exportable.set, "exportable"},
		{d.AllowPlaintextBackup.set, "allow_plaintext_backup"},
		{d.DeletionAllowed.set, "deletion_allowed"},
		{d.SupportsEncryption.set, "supports_encryption"},
		{d.SupportsDecryption.set, "supports_decryption"},
		{d.AutoRotatePeriod.set, "auto_rotate_period"},
	} {
		if !f.set {
			return f.name
		}
	}
	return ""
}

// contradiction checks what the fields say together.
func (k Key) contradiction() error {
	wrong := func(field, why string) error {
		return nonsense(openbao.MetadataRead, "the answer's field data.%s %s: check what answers at openbao.address", field, why)
	}
	if k.Latest < 1 {
		return wrong("latest_version", "is not positive")
	}
	for _, m := range []struct {
		name  string
		value int
	}{
		{"min_decryption_version", k.MinDecryption},
		{"min_encryption_version", k.MinEncryption},
		{"min_available_version", k.MinAvailable},
	} {
		if m.value < 0 || m.value > k.Latest {
			return wrong(m.name, "is not between 0 and latest_version")
		}
	}
	for v := range k.CreatedAtUnix {
		if v > k.Latest {
			return wrong("keys", "lists a version above latest_version")
		}
	}
	if _, ok := k.CreatedAtUnix[k.Latest]; !ok {
		return wrong("keys", "does not list latest_version")
	}
	return nil
}

// versions maps each version to its creation time in Unix seconds.
type versions map[int]int64

func (v *versions) UnmarshalJSON(b []byte) error {
	// By hand, because a map would swallow a version that appears twice.
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return shapeError("data.keys is not an object")
	}
	*v = versions{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		version, err := strconv.ParseInt(name, 10, 32)
		if err != nil || version < 1 || strconv.FormatInt(version, 10) != name {
			return shapeError("data.keys has a name that is not a version")
		}
		if _, twice := (*v)[int(version)]; twice {
			return shapeError("data.keys lists a version twice")
		}
		var created creation
		if err := d.Decode(&created); err != nil {
			return err
		}
		(*v)[int(version)] = int64(created.instant)
	}
	return nil
}

// creation is a version's creation time, or an object with such a
// creation_time (keys that are not symmetric).
type creation struct{ instant }

func (c *creation) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return c.instant.UnmarshalJSON(b)
	}
	var o struct {
		CreationTime required[instant] `json:"creation_time"`
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	if !o.CreationTime.set {
		return shapeError("a version in data.keys has no creation time")
	}
	c.instant = o.CreationTime.value
	return nil
}

// instant is a time in Unix seconds, read from such a number or from RFC 3339
// and cut to whole seconds.
type instant int64

// maxUnix is the end of the year 9999, the last that RFC 3339 can write.
const maxUnix = 253402300799

func (i *instant) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return shapeError("a creation time in data.keys is not RFC 3339")
		}
		*i = instant(t.Unix())
	} else {
		f, err := strconv.ParseFloat(string(b), 64)
		if err != nil || f >= maxUnix+1 {
			return shapeError("a creation time in data.keys is not a number of seconds")
		}
		*i = instant(math.Floor(f))
	}
	if *i < 1 || *i > maxUnix {
		return shapeError("a creation time in data.keys is out of range")
	}
	return nil
}

// period is a duration: a number of seconds, or text such as "720h".
type period time.Duration

func (p *period) UnmarshalJSON(b []byte) error {
	if text, ok := plainString(b); ok {
		d, err := time.ParseDuration(string(text))
		if err != nil || d < 0 {
			return shapeError("data.auto_rotate_period is not a duration")
		}
		*p = period(d)
		return nil
	}
	seconds, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || seconds < 0 || seconds > math.MaxInt64/int64(time.Second) {
		return shapeError("data.auto_rotate_period is not a number of seconds")
	}
	*p = period(time.Duration(seconds) * time.Second)
	return nil
}
