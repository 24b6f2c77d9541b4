package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
)

// Audited is one request that the server saw, from its audit log: what was asked, never what with.
type Audited struct {
	// ID is the server's id of the request.
	ID string
	// Operation is read, update, list and so on.
	Operation string
	// Path is where to, without /v1/.
	Path string
	// Error is why the server refused it before doing anything; empty when it did not.
	Error string
}

// auditLog is the part of the audit file that has been read. All servers of a cluster write one file.
type auditLog struct {
	file string

	// mu guards what follows.
	mu      sync.Mutex
	offset  int64
	entries []Audited
}

func (t *Transit) enableAudit(ctx context.Context) error {
	in := map[string]any{"type": "file", "options": map[string]any{"file_path": t.audit.file}}
	if err := t.Root().Do(ctx, http.MethodPut, "sys/audit/file", in, nil); err != nil {
		return fmt.Errorf("enabling the audit device: %w", err)
	}
	return nil
}

// Audited returns the requests that the server has seen, in order, from the one with index since on. A request is in it before it is
// answered; one that the server answered without looking at it is not: while sealed, over a rate limit, or to an unknown path without a
// token.
func (t *Transit) Audited(since int) ([]Audited, error) {
	if t.options.NoAudit || t.options.NoSetup {
		return nil, errors.New("reading the audit log: Transit was started without one")
	}
	return t.audit.since(since)
}

// Requests counts the requests that the server has seen whose path ends so; "" counts all. See Audited for what is not seen.
func (t *Transit) Requests(pathSuffix string) (int, error) {
	all, err := t.Audited(0)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, a := range all {
		if strings.HasSuffix(a.Path, pathSuffix) {
			n++
		}
	}
	return n, nil
}

func (l *auditLog) since(n int) ([]Audited, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return nil, err
	}
	return slices.Clone(l.entries[min(n, len(l.entries)):]), nil
}

// read takes in the whole lines that have come since. The caller holds mu.
func (l *auditLog) read() error {
	f, err := os.Open(l.file)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1]
	l.offset += int64(len(whole))
	for line := range bytes.Lines(whole) {
		var entry struct {
			Type    string `json:"type"`
			Error   string `json:"error"`
			Request struct {
				ID        string `json:"id"`
				Operation string `json:"operation"`
				Path      string `json:"path"`
			} `json:"request"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return fmt.Errorf("decoding a line of the audit log: %w", err)
		}
		if entry.Type == "request" {
			l.entries = append(l.entries, Audited{
				ID: entry.Request.ID, Operation: entry.Request.Operation, Path: entry.Request.Path, Error: entry.Error,
			})
		}
	}
	return nil
}
