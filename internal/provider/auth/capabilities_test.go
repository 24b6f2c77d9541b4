package auth

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/baokms/baokms/internal/provider/fault"
	"github.com/baokms/baokms/internal/provider/openbao"
)

// What OpenBao answers to capabilities-self, as 2.6.2 does: each path under its
// own name, and once more the first one's under "capabilities".
func TestCapabilities(t *testing.T) {
	paths := []string{"canary-mount/keys/canary", "canary-mount/encrypt/canary"}
	asked := struct {
		Paths []string `json:"paths"`
	}{}
	const unclear = "the answer does not tell what the token may do on every path"
	for name, c := range map[string]struct {
		status int
		body   string
		want   map[string][]string
		cause  fault.Cause
		text   string
	}{
		"both": {200, `{"data":{"canary-mount/keys/canary":["read"],"canary-mount/encrypt/canary":["update","create","update"],"capabilities":["read"],"other":["root"]}}`,
			map[string][]string{paths[0]: {"read"}, paths[1]: {"create", "update"}}, 0, ""},
		"denied": {200, `{"data":{"canary-mount/keys/canary":["deny"],"canary-mount/encrypt/canary":["deny"]}}`,
			map[string][]string{paths[0]: {"deny"}, paths[1]: {"deny"}}, 0, ""},
		"root": {200, `{"data":{"canary-mount/keys/canary":["root"],"canary-mount/encrypt/canary":["root"]}}`,
			map[string][]string{paths[0]: {"root"}, paths[1]: {"root"}}, 0, ""},

		"a path missing":   {200, `{"data":{"canary-mount/keys/canary":["read"],"capabilities":["read"]}}`, nil, fault.AnswerInvalid, unclear},
		"an empty list":    {200, `{"data":{"canary-mount/keys/canary":["read"],"canary-mount/encrypt/canary":[]}}`, nil, fault.AnswerInvalid, unclear},
		"an empty word":    {200, `{"data":{"canary-mount/keys/canary":["read"],"canary-mount/encrypt/canary":[""]}}`, nil, fault.AnswerInvalid, unclear},
		"a null":           {200, `{"data":{"canary-mount/keys/canary":["read"],"canary-mount/encrypt/canary":null}}`, nil, fault.AnswerInvalid, unclear},
		"a string":         {200, `{"data":{"canary-mount/keys/canary":["read"],"canary-mount/encrypt/canary":"update"}}`, nil, fault.AnswerInvalid, unclear},
		"a list of others": {200, `{"data":{"canary-mount/keys/canary":["read"],"canary-mount/encrypt/canary":["update",1]}}`, nil, fault.AnswerInvalid, unclear},
		"no data":          {200, `{"request_id":"canary"}`, nil, fault.AnswerInvalid, unclear},
		"data is null":     {200, `{"data":null}`, nil, fault.AnswerInvalid, unclear},
		"no body":          {204, ``, nil, fault.AnswerInvalid, unclear},
		"an empty object":  {200, `{}`, nil, fault.AnswerInvalid, unclear},
		"data is a list":   {200, `{"data":["canary"]}`, nil, fault.Unavailable, "what OpenBao's library understands"},
		"not JSON":         {200, `<html>canary`, nil, fault.Unavailable, "what OpenBao's library understands"},

		"denied by policy": {403, `{"errors":["1 error occurred:\n\t* permission denied\n\n"]}`, nil, fault.Unauthenticated, "policy openbao"},
		"unknown token":    {403, `{"errors":["permission denied"]}`, nil, fault.Unauthenticated, "HTTP 403"},
		"unknown path":     {404, `{"errors":["no handler for route canary"]}`, nil, fault.RequestRefused, "openbao.namespace"},
		"sealed":           {503, `{"errors":["Vault is sealed"]}`, nil, fault.Sealed, "unseal it"},
	} {
		t.Run(name, func(t *testing.T) {
			var token, namespace, path string
			conn := server(t, func(w http.ResponseWriter, r *http.Request) {
				token, namespace, path = r.Header.Get("X-Vault-Token"), r.Header.Get("X-Vault-Namespace"), r.URL.Path
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			got, err := Capabilities(t.Context(), conn, openbao.NewSecret(canaryToken), paths)
			if c.cause != 0 {
				assertFault(t, err, c.cause, c.text)
			} else if err != nil {
				t.Error(err)
			}
			if !maps.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if token != canaryToken || namespace != "team" || path != "/v1/sys/capabilities-self" || !slices.Equal(asked.Paths, paths) {
				t.Errorf("asked %q for %q in %q", path, asked.Paths, namespace)
			}
		})
	}
}

func TestCapabilitiesOfNothing(t *testing.T) {
	conn := server(t, func(http.ResponseWriter, *http.Request) { t.Error("OpenBao was asked") })
	got, err := Capabilities(t.Context(), conn, openbao.NewSecret(canaryToken), nil)
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
