package transit

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
)

// goodKey is an answer as OpenBao 2.6 gives it, with names replaced.
const goodKey = `{"request_id":"0c9a","lease_id":"","renewable":false,"lease_duration":0,"data":{
"allow_plaintext_backup":false,"auto_rotate_period":0,"deletion_allowed":false,"derived":false,"exportable":false,
"imported_key":false,"keys":{"1":1715803200,"2":1715803201,"3":1715803201},"latest_version":3,"min_available_version":0,
"min_decryption_version":1,"min_encryption_version":0,"name":"CANARY","soft_deleted":false,"supports_decryption":true,
"supports_derivation":true,"supports_encryption":true,"supports_signing":false,"type":"aes256-gcm96"},
"wrap_info":null,"warnings":null,"auth":null}`

func theKey() Key {
	return Key{
		Type: KeyType, Latest: 3, MinDecryption: 1,
		CreatedAtUnix:      map[int]int64{1: 1715803200, 2: 1715803201, 3: 1715803201},
		SupportsEncryption: true, SupportsDecryption: true,
	}
}

// with returns goodKey with fields of its data replaced; nil removes one.
func with(t testing.TB, fields map[string]any) string {
	t.Helper()
	var a struct {
		Data map[string]any `json:"data"`
	}
	if err := json.Unmarshal([]byte(goodKey), &a); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		a.Data[name] = value
		if value == nil {
			delete(a.Data, name)
		}
	}
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadKey(t *testing.T) {
	for name, c := range map[string]struct {
		fields map[string]any
		edit   func(*Key)
	}{
		"as it is":         {nil, func(*Key) {}},
		"no soft_deleted":  {map[string]any{"soft_deleted": nil}, func(*Key) {}},
		"soft_deleted":     {map[string]any{"soft_deleted": true}, func(k *Key) { k.SoftDeleted = true }},
		"unknown field":    {map[string]any{"news": []int{1}}, func(*Key) {}},
		"exportable":       {map[string]any{"exportable": true}, func(k *Key) { k.Exportable = true }},
		"backup":           {map[string]any{"allow_plaintext_backup": true}, func(k *Key) { k.AllowPlaintextBackup = true }},
		"deletion":         {map[string]any{"deletion_allowed": true}, func(k *Key) { k.DeletionAllowed = true }},
		"no encryption":    {map[string]any{"supports_encryption": false}, func(k *Key) { k.SupportsEncryption = false }},
		"no decryption":    {map[string]any{"supports_decryption": false}, func(k *Key) { k.SupportsDecryption = false }},
		"convergent":       {map[string]any{"derived": true, "convergent_encryption": true}, func(k *Key) { k.Derived, k.ConvergentEncryption = true, true }},
		"derived":          {map[string]any{"derived": true, "convergent_encryption": false}, func(k *Key) { k.Derived = true }},
		"rotates":          {map[string]any{"auto_rotate_period": 3600}, func(k *Key) { k.AutoRotatePeriod = time.Hour }},
		"rotates, as text": {map[string]any{"auto_rotate_period": "720h"}, func(k *Key) { k.AutoRotatePeriod = 720 * time.Hour }},
		"minimums": {map[string]any{"min_decryption_version": 3, "min_encryption_version": 3, "min_available_version": 2, "keys": map[string]any{"3": 7}},
			func(k *Key) {
				k.MinDecryption, k.MinEncryption, k.MinAvailable, k.CreatedAtUnix = 3, 3, 2, map[int]int64{3: 7}
			}},
		"RFC 3339": {map[string]any{"keys": map[string]any{"2": "2024-05-15T20:00:00Z", "3": "2024-05-15T22:00:00.999999999+02:00"}},
			func(k *Key) { k.CreatedAtUnix = map[int]int64{2: 1715803200, 3: 1715803200} }},
		"objects": {map[string]any{"type": "ed25519", "keys": map[string]any{"3": map[string]any{"creation_time": "2024-05-15T20:00:00.5Z", "name": "x"}, "2": map[string]any{"creation_time": 5}}},
			func(k *Key) { k.Type = "ed25519"; k.CreatedAtUnix = map[int]int64{3: 1715803200, 2: 5} }},
		"fractions":    {map[string]any{"keys": map[string]any{"3": 1715803200.999}}, func(k *Key) { k.CreatedAtUnix = map[int]int64{3: 1715803200} }},
		"first second": {map[string]any{"keys": map[string]any{"3": 1}}, func(k *Key) { k.CreatedAtUnix = map[int]int64{3: 1} }},
		"last second":  {map[string]any{"keys": map[string]any{"3": maxUnix}}, func(k *Key) { k.CreatedAtUnix = map[int]int64{3: maxUnix} }},
	} {
		t.Run(name, func(t *testing.T) {
			want := theKey()
			c.edit(&want)
			got, err := answers(t, 200, with(t, c.fields)).ReadKey(t.Context())
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("ReadKey: %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestReadKeyRefusesAnswers(t *testing.T) {
	keys := func(v any) map[string]any { return map[string]any{"keys": map[string]any{"3": v}} }
	cases := map[string]struct {
		body, want string
	}{
		"latest 0":           {with(t, map[string]any{"latest_version": 0}), "data.latest_version is not positive"},
		"latest -1":          {with(t, map[string]any{"latest_version": -1}), "data.latest_version is not positive"},
		"latest not listed":  {with(t, map[string]any{"latest_version": 4}), "data.keys does not list latest_version"},
		"above latest":       {with(t, map[string]any{"latest_version": 2}), "data.keys lists a version above"},
		"no versions":        {with(t, map[string]any{"keys": map[string]any{}}), "data.keys does not list latest_version"},
		"decryption":         {with(t, map[string]any{"min_decryption_version": 4}), "data.min_decryption_version is not between"},
		"encryption":         {with(t, map[string]any{"min_encryption_version": 4}), "data.min_encryption_version is not between"},
		"available":          {with(t, map[string]any{"min_available_version": -1}), "data.min_available_version is not between"},
		"latest as text":     {with(t, map[string]any{"latest_version": "3"}), "not the JSON that was expected"},
		"latest fraction":    {with(t, map[string]any{"latest_version": 3.5}), "not the JSON that was expected"},
		"flag as text":       {with(t, map[string]any{"exportable": "CANARY"}), "not the JSON that was expected"},
		"keys as a list":     {with(t, map[string]any{"keys": []any{1}}), "data.keys is not an object"},
		"keys as text":       {with(t, map[string]any{"keys": "CANARY"}), "data.keys is not an object"},
		"version 0":          {with(t, map[string]any{"keys": map[string]any{"0": 1, "3": 1}}), "not a version"},
		"version -1":         {with(t, map[string]any{"keys": map[string]any{"-1": 1, "3": 1}}), "not a version"},
		"version +1":         {with(t, map[string]any{"keys": map[string]any{"+1": 1, "3": 1}}), "not a version"},
		"version 03":         {with(t, map[string]any{"keys": map[string]any{"03": 1}}), "not a version"},
		"version with space": {with(t, map[string]any{"keys": map[string]any{" 3": 1}}), "not a version"},
		"version too large":  {with(t, map[string]any{"keys": map[string]any{"2147483648": 1, "3": 1}}), "not a version"},
		"version a name":     {with(t, map[string]any{"keys": map[string]any{"CANARY": 1}}), "not a version"},
		"time 0":             {with(t, keys(0)), "out of range"},
		"time -1":            {with(t, keys(-1)), "out of range"},
		"time 0.9":           {with(t, keys(0.9)), "out of range"},
		"time too late":      {with(t, keys(maxUnix+1)), "not a number of seconds"},
		"time huge":          {with(t, keys(1e300)), "not a number of seconds"},
		"time null":          {with(t, keys(nil)), "not a number of seconds"},
		"time a flag":        {with(t, keys(true)), "not a number of seconds"},
		"time a list":        {with(t, keys([]any{1})), "not a number of seconds"},
		"time a word":        {with(t, keys("CANARY")), "not RFC 3339"},
		"time without zone":  {with(t, keys("2024-05-15T20:00:00")), "not RFC 3339"},
		"time in 1969":       {with(t, keys("1969-12-31T23:59:59.9Z")), "out of range"},
		"object without":     {with(t, keys(map[string]any{"name": "CANARY"})), "has no creation time"},
		"object in object":   {with(t, keys(map[string]any{"creation_time": map[string]any{"creation_time": 1}})), "not a number of seconds"},
		"period negative":    {with(t, map[string]any{"auto_rotate_period": -1}), "data.auto_rotate_period"},
		"period -1h":         {with(t, map[string]any{"auto_rotate_period": "-1h"}), "data.auto_rotate_period"},
		"period a word":      {with(t, map[string]any{"auto_rotate_period": "CANARY"}), "data.auto_rotate_period"},
		"period too long":    {with(t, map[string]any{"auto_rotate_period": int64(1) << 62}), "data.auto_rotate_period"},
		"derived, unclear":   {with(t, map[string]any{"derived": true}), "no field data.convergent_encryption"},
		"version twice":      {strings.Replace(goodKey, `"2":1715803201`, `"1":1715803201`, 1), "lists a version twice"},
		"field twice":        {strings.Replace(goodKey, `"latest_version":3`, `"latest_version":3,"latest_version":3`, 1), "a field appears twice"},
		"field null":         {strings.Replace(goodKey, `"latest_version":3`, `"latest_version":null`, 1), "a field is null"},
	}
	for _, field := range []string{
		"type", "keys", "latest_version", "min_decryption_version", "min_encryption_version", "min_available_version", "derived", "exportable",
		"allow_plaintext_backup", "deletion_allowed", "supports_encryption", "supports_decryption", "auto_rotate_period",
	} {
		cases["no "+field] = struct{ body, want string }{with(t, map[string]any{field: nil}), "no field data." + field + ":"}
	}
	for n := range goodKey {
		cases[fmt.Sprintf("cut at %d", n)] = struct{ body, want string }{goodKey[:n], "not the JSON that was expected"}
	}
	for name, c := range cases {
		got, err := decodeKey([]byte(c.body))
		assertFault(t, err, fault.AnswerInvalid, c.want)
		if strings.HasPrefix(name, "cut") && !reflect.DeepEqual(got, Key{}) {
			t.Errorf("%s: there is a key: %+v", name, got)
		}
		if t.Failed() {
			t.Fatalf("in case %q", name)
		}
	}
}

func TestReadUpsertDisabled(t *testing.T) {
	for body, want := range map[string]bool{
		`{"data":{"disable_upsert":true}}`:          true,
		`{"data":{"disable_upsert":false,"x":"y"}}`: false,
	} {
		if got, err := answers(t, 200, body).ReadUpsertDisabled(t.Context()); err != nil || got != want {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
	for body, want := range map[string]string{
		`{"data":{}}`:                                             "no field data.disable_upsert",
		`{"disable_upsert":true}`:                                 "no field data.disable_upsert",
		`{"data":{"disable_upsert":null}}`:                        "a field is null",
		`{"data":{"disable_upsert":"true"}}`:                      "not the JSON that was expected",
		`{"data":{"disable_upsert":1}}`:                           "not the JSON that was expected",
		`{"data":{"disable_upsert":false,"disable_upsert":true}}`: "a field appears twice",
	} {
		got, err := answers(t, 200, body).ReadUpsertDisabled(t.Context())
		assertFault(t, err, fault.AnswerInvalid, want)
		if got {
			t.Errorf("%s: reads as true", body)
		}
	}
	_, err := answers(t, 404, `{"errors":[]}`).ReadUpsertDisabled(t.Context())
	assertFault(t, err, fault.KeyMissing, "does not know this setting")
}

func TestCheckProfile(t *testing.T) {
	if v := theKey().CheckProfile(); len(v) != 0 {
		t.Errorf("the good key is refused: %v", v)
	}
	rotating := theKey()
	rotating.AutoRotatePeriod = time.Hour
	if v := rotating.CheckProfile(); len(v) != 0 {
		t.Errorf("a key that rotates by itself is refused: %v", v)
	}
	cures := map[string]Cure{"exportable": Lasting, "allow_plaintext_backup": Lasting, "deletion_allowed": Curable, "soft_deleted": Curable}
	for want, edit := range map[string]func(*Key){
		"type is rsa-2048 and must be aes256-gcm96":        func(k *Key) { k.Type = "rsa-2048" },
		"type is another type and must be aes256-gcm96":    func(k *Key) { k.Type = "CANARY" },
		"derived is true and must be false":                func(k *Key) { k.Derived = true },
		"convergent_encryption is true and must be false":  func(k *Key) { k.ConvergentEncryption = true },
		"exportable is true and must be false":             func(k *Key) { k.Exportable = true },
		"allow_plaintext_backup is true and must be false": func(k *Key) { k.AllowPlaintextBackup = true },
		"deletion_allowed is true and must be false":       func(k *Key) { k.DeletionAllowed = true },
		"soft_deleted is true and must be false":           func(k *Key) { k.SoftDeleted = true },
		"supports_encryption is false and must be true":    func(k *Key) { k.SupportsEncryption = false },
		"supports_decryption is false and must be true":    func(k *Key) { k.SupportsDecryption = false },
	} {
		k := theKey()
		edit(&k)
		found := k.CheckProfile()
		if len(found) != 1 || !strings.HasPrefix(found[0].String(), want+": ") || found[0].Fix == "" {
			t.Errorf("found %v, want %q and a next step", found, want)
			continue
		}
		cure, known := cures[found[0].Field]
		if !known {
			cure = Innate
		}
		if found[0].Cure != cure || (cure == Curable) == strings.Contains(found[0].Fix, "while anything is encrypted") {
			t.Errorf("%s has the cure %d and the next step %q, want %d", found[0].Field, found[0].Cure, found[0].Fix, cure)
		}
	}
	if found := (Key{}).CheckProfile(); len(found) != 3 {
		t.Errorf("found %v in an empty key, want type and both supports", found)
	}
}

func FuzzDecodeKey(f *testing.F) {
	f.Add([]byte(goodKey))
	f.Add([]byte(with(f, map[string]any{"keys": map[string]any{"3": "2024-05-15T20:00:00.5Z"}})))
	f.Add([]byte(with(f, map[string]any{"keys": map[string]any{"3": map[string]any{"creation_time": 1}}})))
	f.Fuzz(func(t *testing.T, answer []byte) {
		k, err := decodeKey(answer)
		if err != nil {
			if fault.CauseOf(err) != fault.AnswerInvalid || len(err.Error()) > 300 {
				t.Errorf("unexpected error %q", err)
			}
			return
		}
		if k.Latest < 1 || k.CreatedAtUnix[k.Latest] < 1 || k.MinDecryption > k.Latest || k.MinEncryption > k.Latest || k.AutoRotatePeriod < 0 {
			t.Errorf("accepted %+v", k)
		}
		for v, created := range maps.All(k.CreatedAtUnix) {
			if v < 1 || v > k.Latest || created < 1 || created > maxUnix {
				t.Errorf("accepted version %d created at %d", v, created)
			}
		}
	})
}

func FuzzDecodeUpsert(f *testing.F) {
	f.Add([]byte(`{"data":{"disable_upsert":true}}`))
	f.Add([]byte(`{"data":{"disable_upsert":null}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := decodeUpsert(answer)
		if got && (err != nil || !strings.Contains(string(answer), "true")) {
			t.Errorf("%q reads as true, %v", answer, err)
		}
	})
}
