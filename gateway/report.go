package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/justonce-dev/justonce"
)

// report serves GET /v1/report: what was observed without being held back.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	x, ok := s.svc.(reporter)
	if !ok {
		s.fail(w, r, reading, problemOf(slugUnsupported, "it does not observe calls"))
		return
	}
	q, err := query(r, "since")
	o := &justonce.ReportOptions{Tenant: s.o.Tenant}
	if err == nil && q.Has("since") {
		if o.Since, err = time.Parse(time.RFC3339Nano, q.Get("since")); err != nil {
			err = &justonce.InvalidError{Field: "since", Detail: "want a time of RFC 3339, such as 2026-01-31T12:00:00Z"}
		}
	}
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	ctx, cancel := brief(r)
	defer cancel()
	rep, err := x.Report(ctx, o)
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	b, err := json.Marshal(rep)
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	tell(w, http.StatusOK, jsonType, b)
}

// Report sums up what was observed without being held back. Of o only Since is
// asked for; nil is the zero value.
func (c *Client) Report(ctx context.Context, o *justonce.ReportOptions) (*justonce.Report, error) {
	q := url.Values{}
	if o != nil {
		if err := checkTenant(o.Tenant); err != nil {
			return nil, err
		}
		if !o.Since.IsZero() {
			q.Set("since", o.Since.UTC().Format(time.RFC3339Nano))
		}
	}
	return fetch[justonce.Report](c, ctx, get("/v1/report", q))
}

func docReport(d *docs) *endpoint {
	since := in("query", "since", text("Only intents first seen at or after."))
	since.Schema.Format = "date-time"
	return described("report", "What was observed without being held back", []*huma.Param{since}, nil,
		map[int]*huma.Response{200: gives[justonce.Report](d, "The calls and duplicates of each tool.")})
}
