package stack_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/baokms/baokms/test/stack"
	"github.com/baokms/baokms/test/stack/stacktest"
)

// login is a client with the token that a provider would have.
func login(t *testing.T, s *stack.Transit) (*stack.Client, stack.Login) {
	t.Helper()
	jwt, err := s.MintJWT(nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.LoginJWT(t.Context(), jwt)
	if err != nil {
		t.Fatal(err)
	}
	return s.Root().With(l.Token), l
}

func encrypt(t *testing.T, c *stack.Client, s *stack.Transit, plain, aad string) (string, error) {
	t.Helper()
	var answer struct {
		Data struct {
			Ciphertext string `json:"ciphertext"`
		} `json:"data"`
	}
	err := c.Do(t.Context(), http.MethodPost, s.Mount()+"/encrypt/"+s.Key(), map[string]any{
		"plaintext": []byte(plain), "associated_data": []byte(aad),
	}, &answer)
	return answer.Data.Ciphertext, err
}

func decrypt(t *testing.T, c *stack.Client, s *stack.Transit, ciphertext, aad string) (string, error) {
	t.Helper()
	var answer struct {
		Data struct {
			Plaintext []byte `json:"plaintext"`
		} `json:"data"`
	}
	err := c.Do(t.Context(), http.MethodPost, s.Mount()+"/decrypt/"+s.Key(), map[string]any{
		"ciphertext": ciphertext, "associated_data": []byte(aad),
	}, &answer)
	return string(answer.Data.Plaintext), err
}

// status is the HTTP status of an answer that was no success, 0 for any other error.
func status(err error) int {
	var said *stack.APIError
	if errors.As(err, &said) {
		return said.Status
	}
	return 0
}

func wantStatus(t *testing.T, what string, err error, want int) {
	t.Helper()
	if status(err) != want {
		t.Errorf("%s: %v, want status %d", what, err, want)
	}
}

// TestTransitLife is the whole life of a server, on each storage: a provider's login, round trip, rotation, seal, restart, stop.
func TestTransitLife(t *testing.T) {
	t.Parallel()
	storages := []stack.Storage{stack.StorageFile, stack.StorageRaft}
	if os.Getenv(stack.OpenBaoEnv) != "" {
		storages = []stack.Storage{stack.StorageRaft}
	}
	for _, storage := range storages {
		t.Run(string(storage), func(t *testing.T) {
			begin := time.Now()
			s := stacktest.Transit(t, stack.TransitOptions{Storage: storage})
			t.Logf("started and set up in %v", time.Since(begin).Round(time.Millisecond))
			c, l := login(t, s)
			if l.TTL != time.Hour || !l.Renewable {
				t.Errorf("the token lives %v, renewable %v, want an hour and renewable", l.TTL, l.Renewable)
			}
			first, err := encrypt(t, c, s, "seed", "context")
			if err != nil || !strings.HasPrefix(first, "vault:v1:") {
				t.Fatalf("encrypt: %q, %v", first, err)
			}
			if latest, err := s.Rotate(t.Context(), s.Key()); err != nil || latest != 2 {
				t.Fatalf("rotate: version %d, %v", latest, err)
			}
			second, err := encrypt(t, c, s, "seed", "context")
			if err != nil || !strings.HasPrefix(second, "vault:v2:") {
				t.Fatalf("encrypt after the rotation: %q, %v", second, err)
			}

			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err = decrypt(t, c, s, first, "context")
			wantStatus(t, "decrypt while sealed", err, http.StatusServiceUnavailable)
			if err := s.Unseal(t.Context()); err != nil {
				t.Fatal(err)
			}

			address, pid := s.Address(), s.Pid()
			begin = time.Now()
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("restarted in %v", time.Since(begin).Round(time.Millisecond))
			if s.Address() != address || s.Pid() == pid {
				t.Errorf("after the restart: %s as process %d, before %s as %d", s.Address(), s.Pid(), address, pid)
			}
			for _, ciphertext := range []string{first, second} {
				if plain, err := decrypt(t, c, s, ciphertext, "context"); err != nil || plain != "seed" {
					t.Errorf("decrypt after the restart: %q, %v", plain, err)
				}
			}

			s.Kill()
			if err := s.StartSealed(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Unseal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if plain, err := decrypt(t, c, s, second, "context"); err != nil || plain != "seed" {
				t.Errorf("decrypt after a kill: %q, %v", plain, err)
			}

			pid = s.Pid()
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			gone(t, pid)
		})
	}
}
