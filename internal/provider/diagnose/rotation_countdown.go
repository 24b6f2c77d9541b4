package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/baokms/baokms/internal/report"
)

// reportTimeout bounds the question to the report socket, which answers from
// memory.
const reportTimeout = 2 * time.Second

// countdown is what is known of the running provider's activation delay. It is
// process-local: no file has it (design: registry, the activation deadline).
type countdown struct {
	// asked is set when the provider told of exactly this registry. Its delay then
	// ends at end, or does not run yet where that is zero.
	asked bool
	end   time.Time
	// instead says why it is not known.
	instead string
}

// askCountdown asks the report socket at path, empty for none. An answer about
// another registry than the one with this hash says nothing about it.
func askCountdown(ctx context.Context, path, hash string) countdown {
	if path == "" {
		return countdown{instead: "only a provider with a report socket (server.reportSocketPath) tells the moment"}
	}
	r, err := readReport(ctx, path)
	switch {
	case err != nil:
		return countdown{instead: "the report socket (server.reportSocketPath), which knows the moment, gives no usable answer"}
	case r.Registry == nil || r.Registry.StateHash != hash:
		return countdown{instead: "the running provider holds another generation than the state file did: look again for the moment"}
	}
	c := countdown{asked: true}
	if p := r.Rotation.Pending; p != nil {
		c.end, _ = p.EstimatedPromotion.Time()
	}
	return c
}

// readReport reads the node report of the provider that listens at path.
func readReport(ctx context.Context, path string) (*report.NodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/report", nil)
	if err != nil {
		return nil, err
	}
	// RoundTrip follows no redirect.
	resp, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the report socket answers %d", resp.StatusCode)
	}
	doc, err := io.ReadAll(io.LimitReader(resp.Body, report.MaxSize+1))
	if err != nil {
		return nil, errors.New("the report socket's answer breaks off")
	}
	return report.Decode[report.NodeReport](doc)
}
