package reporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/baokms/baokms/internal/report"
)

// Bounds of one question to the socket. The provider answers from memory, so one
// that takes longer is not well.
const (
	askTimeout = 5 * time.Second
	headerSize = 64 << 10
)

// The reasons of ProviderReachable, searchable codes.
const (
	reasonAnswering    = "Answering"
	reasonNoSocket     = "SocketMissing"
	reasonNotListening = "NotListening"
	reasonForbidden    = "PermissionDenied"
	reasonTimeout      = "Timeout"
	reasonInterrupted  = "AnswerInterrupted"
	reasonUnexpected   = "UnexpectedAnswer"
	reasonMalformed    = "MalformedReport"
	reasonUnknownForm  = "UnknownReportVersion"
	reasonOther        = "OtherProvider"
)

// silence is why there is no report that counts: the reason and message of
// ProviderReachable=False. Equal causes have equal messages, so that they are
// written once.
type silence struct{ reason, message string }

// socket asks the provider on one node. It keeps no connection: a provider that
// restarts makes a new socket at the same path.
type socket struct {
	path   string
	client *http.Client
}

func newSocket(path string) *socket {
	return &socket{path, &http.Client{
		Timeout: askTimeout,
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: headerSize,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// report asks for the node report. A provider without a registry answers 503 with
// a report that says so.
func (s *socket) report(ctx context.Context) (*report.NodeReport, *silence) {
	code, doc, none := s.get(ctx, "/v1/report")
	if none != nil {
		return nil, none
	}
	if code != http.StatusOK && code != http.StatusServiceUnavailable {
		return nil, &silence{reasonUnexpected, fmt.Sprintf(
			"the report socket answers with HTTP status %d, which no provider does; check that the socket at %s is the provider's server.reportSocketPath", code, s.path)}
	}
	return decode[report.NodeReport](doc)
}

// retirementPlan asks what retiring below a version would do; one of the first
// two is the answer, or there is none.
func (s *socket) retirementPlan(ctx context.Context, before int32) (*report.RetirementPlan, *report.Problem, *silence) {
	code, doc, none := s.get(ctx, fmt.Sprintf("/v1/retirement-plan?before-version=%d", before))
	if none != nil {
		return nil, nil, none
	}
	if code != http.StatusOK {
		problem, none := decode[report.Problem](doc)
		return nil, problem, none
	}
	plan, none := decode[report.RetirementPlan](doc)
	if none == nil && plan.BeforeVersion != int(before) {
		plan, none = nil, &silence{reasonUnexpected, "the provider answered with the retirement plan of another version than was asked for; report this as a defect"}
	}
	return plan, nil, none
}

func (s *socket) get(ctx context.Context, path string) (code int, doc []byte, none *silence) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		return 0, nil, s.unanswered(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, s.unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	// One byte more than Decode takes: it then says that the document is too large.
	doc, err = io.ReadAll(io.LimitReader(resp.Body, report.MaxSize+1))
	if err != nil {
		return 0, nil, s.unanswered(err)
	}
	return resp.StatusCode, doc, nil
}

// unanswered words why the socket gave no answer.
func (s *socket) unanswered(err error) *silence {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &silence{reasonNoSocket, fmt.Sprintf(
			"there is no report socket at %s; check that the provider runs on this node, that server.reportSocketPath is set, and that its directory is mounted here", s.path)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &silence{reasonNotListening, fmt.Sprintf(
			"nothing listens on the report socket at %s; check whether the provider has stopped on this node", s.path)}
	case errors.Is(err, os.ErrPermission):
		return &silence{reasonForbidden, fmt.Sprintf(
			"the node reporter may not open the report socket at %s; run it with the group of the socket", s.path)}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &silence{reasonTimeout, fmt.Sprintf(
			"the provider did not answer on its report socket within %s; see its logs on this node", askTimeout)}
	}
	return &silence{reasonInterrupted, "the report socket did not give a complete HTTP answer; see the provider's logs on this node, and check that the socket at " + s.path + " is its server.reportSocketPath"}
}

// decode reads a document and tells one that is broken from one that is newer
// than this reporter.
func decode[D report.Document](doc []byte) (*D, *silence) {
	d, err := report.Decode[D](doc)
	if err == nil {
		return d, nil
	}
	reason := reasonMalformed
	if newer[D](doc) {
		reason = reasonUnknownForm
	}
	return nil, &silence{reason, "the provider's answer is refused: " + strings.TrimPrefix(err.Error(), "report: ")}
}

// newer reports whether doc is one of another release: of another version, or
// with fields that v1 does not know.
func newer[D report.Document](doc []byte) bool {
	var head struct {
		APIVersion string `json:"apiVersion"`
	}
	if len(doc) > report.MaxSize || json.Unmarshal(doc, &head) != nil || head.APIVersion == "" {
		return false
	}
	if head.APIVersion != report.APIVersion {
		return true
	}
	strict, loose := json.NewDecoder(bytes.NewReader(doc)), json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	return strict.Decode(new(D)) != nil && loose.Decode(new(D)) == nil
}
