package config

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

func TestDurationSpelling(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Nanosecond: "1ns", 1500 * time.Microsecond: "1.5ms", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 24 * time.Hour: "24h", 20 * time.Hour: "20h",
	} {
		got := Duration(d).String()
		if got != want {
			t.Errorf("%v is spelt %s, want %s", d, got, want)
		}
		var back Duration
		if err := json.Unmarshal([]byte(`"`+got+`"`), &back); err != nil || time.Duration(back) != d {
			t.Errorf("%s reads back as %v, %v", got, time.Duration(back), err)
		}
	}
}

func TestScalarsFromJSON(t *testing.T) {
	cases := []struct {
		into interface{ UnmarshalJSON([]byte) error }
		json string
		want string // part of the error, "" for none
	}{
		{new(Duration), `"5s"`, ""}, {new(Duration), `5`, "no unit"}, {new(Duration), `null`, "neither"}, {new(Duration), `{}`, "neither"}, {new(Duration), `"5`, "not a string"},
		{new(Mode), `"0660"`, ""}, {new(Mode), `432`, "in quotes"}, {new(Mode), `true`, "neither"},
		{new(Group), `"kube"`, ""}, {new(Group), `7`, ""}, {new(Group), `-7`, "neither"}, {new(Group), `1.5`, "neither"},
	}
	for _, c := range cases {
		err := c.into.UnmarshalJSON([]byte(c.json))
		if got := errText(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%T from %s: error %q, want %q", c.into, c.json, got, c.want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestModeForTheSystem(t *testing.T) {
	c := parsed(t, document(`server.socketMode="0640"`))
	if got := c.Server.SocketMode.FileMode(); got != fs.FileMode(0o640) {
		t.Errorf("mode is %v", got)
	}
}

func TestGID(t *testing.T) {
	for group, want := range map[Group]int{"0": 0, "1000": 1000, "4294967294": 4294967294, "root": 0} {
		if got, err := group.GID(); err != nil || got != want {
			t.Errorf("GID of %s is %d, %v, want %d", group, got, err, want)
		}
	}
	_, err := Group("no-such-group-here").GID()
	e, ok := err.(*Error)
	if !ok || len(e.Problems) != 1 || e.Problems[0].Field != "server.socketGroup" || strings.Contains(err.Error(), "no-such") {
		t.Errorf("an unknown group gives %v", err)
	}
}

// No value of any field ever gets into an error (invariant 10).
func TestErrorsRepeatNoValue(t *testing.T) {
	canaries := []string{
		"canary0815", `" canary0815"`, `"canary0815/../x"`, `"/canary0815/"`, `"canary0815\0"`, `"https://canary0815:canary0815@x"`, `"https://canary0815/x?y"`,
		`"https://canary0815 x"`, `"@canary0815"`, "[canary0815]", "{canary-0815/x: y}", "!canary0815 x", "&canary0815 x", "*canary0815", `"canary0815`, "08150815081508150815",
	}
	for _, c := range fieldCases {
		for _, canary := range canaries {
			_, err := Parse(document(append(editsFor(c.field), c.field+"="+canary)...), nil)
			if text := errText(err); strings.Contains(text, "canary") || strings.Contains(text, "0815") {
				t.Errorf("%s: %s is repeated in %s", c.field, canary, text)
			}
		}
	}
	_, err := Parse(document(), func(string) string { return "canary0815:x" })
	if text := errText(err); text == "" || strings.Contains(text, "canary") {
		t.Errorf("an override gives %q", text)
	}
}

func TestMain(m *testing.M) {
	// The process's own overrides would change what Load returns.
	for _, v := range []string{EnvConfig, EnvLogLevel, EnvMetricsAddress, EnvHealthAddress} {
		os.Unsetenv(v)
	}
	os.Exit(m.Run())
}
