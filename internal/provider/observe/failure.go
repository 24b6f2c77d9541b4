package observe

import (
	"encoding/binary"
	"hash/maphash"
	"log/slog"
	"strings"
)

// failure is what tells one failure from another. A key that cannot decrypt must
// not hide that another one cannot either, so the key is part of it; its hash
// stands for it, as everywhere.
type failure struct {
	text    [len(failureKeys)]string
	version int64 // of the Transit key, 0 for none
}

// failureKeys are the keys of a failure's text, in the order of print.
var failureKeys = [...]string{
	failedOperation: "operation", failedMethod: "method", failedStatus: "status", failedClass: "error_class",
	failedReason: "reason", failedError: "error", failedKey: "key_id_hash",
}

const (
	failedOperation = iota
	failedMethod
	failedStatus
	failedClass
	failedReason
	failedError
	failedKey
)

// versionKey is the key of a failure's only number.
const versionKey = "transit_key_version"

// failureIndex is where a failure keeps the text of a key, -1 for one that does
// not matter.
func failureIndex(key string) int {
	switch key {
	case "operation":
		return failedOperation
	case "method":
		return failedMethod
	case "status":
		return failedStatus
	case "error_class":
		return failedClass
	case "reason":
		return failedReason
	case "error":
		return failedError
	case "key_id_hash":
		return failedKey
	}
	return -1
}

func (f *failure) take(a slog.Attr) {
	if a.Key == versionKey {
		if v := a.Value.Resolve(); v.Kind() == slog.KindInt64 {
			f.version = v.Int64()
		}
		return
	}
	i := failureIndex(a.Key)
	if i < 0 {
		return
	}
	v := a.Value.Resolve()
	if v.Kind() != slog.KindString {
		v = safeValue(a.Key, v)
	}
	f.text[i] = v.String()
}

// merge lets what over has win.
func (f *failure) merge(over *failure) {
	for i, s := range over.text {
		if s != "" {
			f.text[i] = s
		}
	}
	if over.version != 0 {
		f.version = over.version
	}
}

// attrs is f for a summary line.
func (f *failure) attrs() []slog.Attr {
	var attrs []slog.Attr
	for i, s := range f.text {
		if s != "" {
			attrs = append(attrs, slog.String(failureKeys[i], s))
		}
	}
	if f.version != 0 {
		attrs = append(attrs, slog.Int64(versionKey, f.version))
	}
	return attrs
}

// floodID is the identity of a failure, and that of what failed.
type floodID struct{ failure, group, event uint64 }

func (fs *floods) identify(r slog.Record, f *failure) floodID {
	var h maphash.Hash
	h.SetSeed(fs.seed)
	part := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	var id floodID
	part(r.Message)
	id.event = h.Sum64()
	part(f.text[failedOperation])
	part(f.text[failedMethod])
	id.group = h.Sum64()
	part(f.text[failedStatus])
	part(f.text[failedClass])
	part(f.text[failedReason])
	part(f.text[failedKey])
	var version [8]byte
	binary.LittleEndian.PutUint64(version[:], uint64(f.version))
	_, _ = h.Write(version[:])
	writeWithoutCounts(&h, f.text[failedError])
	id.failure = h.Sum64()
	return id
}

// countUnits are what follows a number that counts, with or without a space.
var countUnits = setOf("ns", "us", "µs", "ms", "s", "m", "h", "d",
	"second", "seconds", "minute", "minutes", "hour", "hours", "day", "days",
	"B", "kB", "MB", "KiB", "MiB", "byte", "bytes", "times", "attempts")

// longestName is the length of the longest number that names something: an HTTP
// status, a version, the place of a block in a file.
const longestName = 3

// writeWithoutCounts adds s without the numbers in it that count: a time that is
// counted down in an error makes no other error of it. Those are the numbers
// before a unit, and long ones, such as a size, a port or a time. The others say
// what failed, above all an HTTP status, and stay.
func writeWithoutCounts(h *maphash.Hash, s string) {
	from := 0 // of what is still to be written
	for i := 0; i < len(s); {
		if !isDigit(s[i]) {
			i++
			continue
		}
		end := numberEnd(s, i)
		if end-i > longestName || unitFollows(s[end:]) {
			_, _ = h.WriteString(s[from:i])
			from = end
		}
		i = end
	}
	_, _ = h.WriteString(s[from:])
}

// numberEnd is the end of the number that begins at i, with its fraction.
func numberEnd(s string, i int) int {
	for i < len(s) && (isDigit(s[i]) || s[i] == '.' && i+1 < len(s) && isDigit(s[i+1])) {
		i++
	}
	return i
}

func unitFollows(s string) bool {
	s = strings.TrimPrefix(s, " ")
	n := 0
	for n < len(s) && (s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || s[n] >= 0x80) {
		n++
	}
	return countUnits[s[:n]]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
