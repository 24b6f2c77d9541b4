package observe

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/identity"
)

var otherHash = identity.Hash("another key_id")

// What is not identical is another failure; what differs elsewhere is the same.
func TestWhatIsIdentical(t *testing.T) {
	type args = []any
	base := args{"operation", "Decrypt", "status", "Unavailable", "error_class", "timeout", "error", "no answer in 2s (HTTP 503)",
		"key_id_hash", hashOfKey, "transit_key_version", 3}
	with := func(more ...any) args { return append(append(args{}, base...), more...) }
	cases := []struct {
		name    string
		event   string
		args    args
		repeats bool
	}{
		{"the same", "kms.request", base, true},
		{"another duration", "kms.request", with("duration_ms", 7.5), true},
		{"another key", "kms.request", with("key_id_hash", otherHash), false},
		{"another version of the key", "kms.request", with("transit_key_version", 4), false},
		{"the same key again", "kms.request", with("key_id_hash", hashOfKey, "transit_key_version", 3), true},
		{"no key", "kms.request", with("key_id_hash", "", "transit_key_version", 0), false},
		{"another time in the error", "kms.request", with("error", "no answer in 17s (HTTP 503)"), true},
		{"another HTTP status", "kms.request", with("error", "no answer in 2s (HTTP 500)"), false},
		{"another error", "kms.request", with("error", "no answer in 2m (HTTP 503)"), false},
		{"another event", "openbao.request", base, false},
		{"another operation", "kms.request", with("operation", "Encrypt"), false},
		{"another method", "kms.request", with("method", "jwt"), false},
		{"another status", "kms.request", with("status", "DeadlineExceeded"), false},
		{"another class", "kms.request", with("error_class", "openbao_sealed"), false},
		{"another class by its type", "kms.request", with("error_class", fault.ClassOpenBaoSealed), false},
		{"the same class by its type", "kms.request", with("error_class", fault.ClassTimeout), true},
		{"the same error by its type", "kms.request", with("error", errors.New("no answer in 2s (HTTP 503)")), true},
		{"another reason", "kms.request", with("reason", "auth_failed"), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := floodLogger(t, "warn")
				l.Warn("kms.request", base...)
				p.take(t)
				l.Warn(c.event, c.args...)
				if got := p.take(t); (got == "") != c.repeats {
					t.Errorf("printed %q, want that it repeats: %v", got, c.repeats)
				}
			})
		})
	}
}

// Of errors that differ in their numbers only, the last one is told.
func TestTheLastErrorIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		for seconds := range 4 {
			l.Warn("auth.login", "operation", "jwt_login", "error", fmt.Sprintf("the JWT ended %d s ago", seconds))
		}
		p.want(t, "at the beginning", "warn auth.login operation=jwt_login error=the JWT ended 0 s ago")
		time.Sleep(time.Minute)
		synctest.Wait()
		p.want(t, "after a minute", "warn auth.login operation=jwt_login error=the JWT ended 3 s ago repeated=3 since="+minute0)
	})
}

// A key that cannot decrypt does not hide another one, and each is told as itself.
func TestEachKeysFailureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		decrypt := func(hash string, version int) {
			l.Warn("kms.request", "operation", "Decrypt", "error_class", "transit_key_missing", "key_id_hash", hash, "transit_key_version", version)
		}
		for range 3 {
			decrypt(hashOfKey, 3)
		}
		p.take(t)
		decrypt(otherHash, 4)
		const ended = `"repeated":2,"since":"` + minute0
		wantOnce(t, p.raw(), `"key_id_hash":"`+hashOfKey+`","transit_key_version":3,`+ended, `"key_id_hash":"`+otherHash+`","transit_key_version":4}`)
		for range 5 {
			decrypt(hashOfKey, 3)
			decrypt(otherHash, 4)
		}
		if got := p.raw(); got != "" {
			t.Errorf("repeats are printed:\n%s", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantOnce(t, p.raw(), `"key_id_hash":"`+hashOfKey+`","transit_key_version":3,"repeated":5`, `"key_id_hash":"`+otherHash+`","transit_key_version":4,"repeated":5`)
	})
}

// A logger that is bound to a key tells it once in each line.
func TestTheKeyOfADerivedLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := floodLogger(t, "info")
		for range 2 {
			l.With("key_id_hash", hashOfKey, "transit_key_version", 3).Warn("kms.request")
			l.With("key_id_hash", hashOfKey, "transit_key_version", 4).Warn("kms.request")
		}
		if got := p.raw(); strings.Count(got, "\n") != 2 {
			t.Errorf("not one line for each of two versions:\n%s", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantOnce(t, p.raw(), `"key_id_hash":"`+hashOfKey+`","transit_key_version":3,"repeated":1`, `"key_id_hash":"`+hashOfKey+`","transit_key_version":4,"repeated":1`)
	})
}

// wantOnce fails the test unless out is one line for each of the parts.
func wantOnce(t *testing.T, out string, parts ...string) {
	t.Helper()
	if n := strings.Count(out, "\n"); n != len(parts) {
		t.Errorf("%d lines, want %d", n, len(parts))
	}
	for _, part := range parts {
		if n := strings.Count(out, part); n != 1 {
			t.Errorf("%d times %s in:\n%s", n, part, out)
		}
	}
}

// Numbers that count are no part of an error, those that name something are.
func TestWhichNumbersCount(t *testing.T) {
	seed := maphash.MakeSeed()
	sum := func(s string) uint64 {
		var h maphash.Hash
		h.SetSeed(seed)
		writeWithoutCounts(&h, s)
		return h.Sum64()
	}
	cases := []struct {
		a, b string
		same bool
	}{
		{"refused (HTTP 400)", "refused (HTTP 404)", false},
		{"refused (HTTP 400)", "refused (HTTP 400)", true},
		{"of Transit version 2, version 3 was asked for", "of Transit version 2, version 4 was asked for", false},
		{"PEM block 1 is damaged", "PEM block 2 is damaged", false},
		{"no answer within 2s", "no answer within 10s", true},
		{"the token ends in 1m30s", "the token ends in 2m5.25s", true},
		{"took 1.5ms", "took 17ms", true},
		{"took 9µs (HTTP 503)", "took 812µs (HTTP 503)", true},
		{"took 9µs (HTTP 503)", "took 9µs (HTTP 502)", false},
		{"ended 3 s ago", "ended 4 s ago", true},
		{"ended 3 seconds ago", "ended 41 seconds ago", true},
		{"larger than 512 bytes", "larger than 64 bytes", true},
		{"after 3 attempts", "after 4 attempts", true},
		{"from 127.0.0.1:40312", "from 127.0.0.1:40313", true},
		{"at 1764468000", "at 1764468001", true},
		{"2s", "2m", false},
		{"7", "8", false},
		{"", "7", false},
		{"", "7s", false},
	}
	for _, c := range cases {
		if got := sum(c.a) == sum(c.b); got != c.same {
			t.Errorf("%q and %q are one error: %v, want %v", c.a, c.b, got, c.same)
		}
	}
}
