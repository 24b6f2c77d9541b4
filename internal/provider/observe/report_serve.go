package observe

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/baokms/baokms/internal/report"
)

// ReportHandler serves the node report (design: observability, node report):
//
//   - GET /v1/report is a report.NodeReport: 200, or 503 while there is no
//     registry, with the same type, which then says why.
//   - GET /v1/retirement-plan?before-version=N is a report.RetirementPlan: what
//     retire-versions would do here. Every other answer to it is a
//     report.Problem: 400 for a bad query, 409 when a guard refuses the plan, 503
//     while there is no registry.
//
// Every answer is made from one status view: nothing is read, nobody is asked
// and nothing can be changed. It holds no token, path, key name or key_id.
func ReportHandler(o ReportOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/report", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			bad := refuse(http.StatusBadRequest, report.ReasonBadQuery, advice{"the report takes no query", "ask for /v1/report"})
			writeDocument(w, bad.code, bad.problem)
			return
		}
		view := o.Views.Load()
		told := nodeReport(view, time.Now(), o)
		code := http.StatusOK
		if told.Registry == nil {
			code = http.StatusServiceUnavailable
		}
		writeDocument(w, code, told)
	})
	mux.HandleFunc("GET /v1/retirement-plan", func(w http.ResponseWriter, r *http.Request) {
		before, bad := beforeVersion(r.URL.RawQuery)
		if bad != nil {
			writeDocument(w, bad.code, bad.problem)
			return
		}
		view := o.Views.Load()
		plan, refused := retirementPlan(view, time.Now(), before)
		if refused != nil {
			writeDocument(w, refused.code, refused.problem)
			return
		}
		writeDocument(w, http.StatusOK, plan)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		none := refuse(http.StatusNotFound, report.ReasonNotFound, advice{"there is nothing here", "ask for /v1/report or /v1/retirement-plan?before-version=N"})
		writeDocument(w, none.code, none.problem)
	})
	return mux
}

func writeDocument[D report.Document](w http.ResponseWriter, code int, d *D) {
	doc, err := report.Encode(d)
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// A reader that went away is no concern of ours.
	_, _ = w.Write(doc)
}

// ServeListener serves handler read-only on a listener, with the bounds of every
// endpoint here, until ctx ends or Shutdown is called. It closes the listener at
// the end. The report socket is one: serve opens it by the rules of every socket
// of the provider.
func ServeListener(ctx context.Context, l net.Listener, handler http.Handler) *Server {
	return serveOn(ctx, l, handler)
}
