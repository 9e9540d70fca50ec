package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce"
)

// briefTime bounds what does not wait.
const briefTime = 30 * time.Second

// brief returns the context of what must not be cut short when the server
// stops.
func brief(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), briefTime)
}

func (s *Server) ref(r *http.Request) justonce.Ref {
	return justonce.Ref{Tenant: s.o.Tenant, Key: r.PathValue("key")}
}

// query reads the parameters and refuses those that are not listed.
func query(r *http.Request, allowed ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &justonce.InvalidError{Field: "query", Detail: "it is malformed"}
	}
next:
	for name, values := range q {
		for _, a := range allowed {
			if a == name {
				if len(values) > 1 && name != "state" {
					return nil, &justonce.InvalidError{Field: name, Detail: "it is there more than once"}
				}
				continue next
			}
		}
		return nil, &justonce.InvalidError{Field: clip(name), Detail: "there is no such parameter; there are " + strings.Join(allowed, ", ")}
	}
	return q, nil
}

// get serves GET /v1/tool-calls/{key}, with wait until it has ended or waits
// for a person.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "wait")
	var wait time.Duration
	if err == nil && q.Has("wait") {
		wait, err = s.parseWait(q.Get("wait"))
	}
	var a *justonce.Answer
	switch {
	case err != nil:
	case wait > 0 && !s.stopping.Load():
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		a, err = s.svc.Wait(ctx, s.ref(r))
	default:
		ctx, cancel := brief(r)
		defer cancel()
		a, err = s.svc.Get(ctx, s.ref(r))
	}
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	if again := retryAfter(a.Operation); again > 0 {
		w.Header()["Retry-After"] = []string{itoa(again)}
	}
	s.answer(w, http.StatusOK, a)
}

func (s *Server) filter(r *http.Request) (f justonce.Filter, err error) {
	q, err := query(r, "state", "tool", "scope", "run_id", "reference", "since", "until", "limit", "cursor")
	if err != nil {
		return f, err
	}
	f = justonce.Filter{Tenant: s.o.Tenant, Tool: q.Get("tool"), Scope: q.Get("scope"), RunID: q.Get("run_id"),
		Reference: q.Get("reference"), Cursor: q.Get("cursor")}
	for _, v := range q["state"] {
		for state := range strings.SplitSeq(v, ",") {
			f.States = append(f.States, justonce.State(state))
		}
	}
	for name, t := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if !q.Has(name) {
			continue
		}
		if *t, err = time.Parse(time.RFC3339Nano, q.Get(name)); err != nil {
			return f, &justonce.InvalidError{Field: name, Detail: "want a time of RFC 3339, such as 2026-01-31T12:00:00Z"}
		}
	}
	if q.Has("limit") {
		if f.Limit, err = strconv.Atoi(q.Get("limit")); err != nil || f.Limit < 1 {
			return f, &justonce.InvalidError{Field: "limit", Detail: "want 1 to 1000"}
		}
	}
	return f, nil
}

// list serves GET /v1/tool-calls.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	f, err := s.filter(r)
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	ctx, cancel := brief(r)
	defer cancel()
	page, err := s.svc.List(ctx, f)
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	o := object{[]byte(`{"operations":[`)}
	for i, op := range page.Operations {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.operation(&justonce.Answer{Operation: op}, false)
	}
	o.b = append(o.b, ']')
	o.strIf("next", page.Next)
	o.b = append(o.b, '}', '\n')
	tell(w, http.StatusOK, jsonType, o.b)
}

// history serves GET /v1/tool-calls/{key}/history.
func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := brief(r)
	defer cancel()
	_, err := query(r)
	var entries []justonce.Entry
	if err == nil {
		entries, err = s.svc.History(ctx, s.ref(r))
	}
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	o := object{[]byte(`{"entries":[`)}
	for i := range entries {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.entry(&entries[i])
	}
	o.b = append(o.b, "]}\n"...)
	tell(w, http.StatusOK, jsonType, o.b)
}

// tools serves GET /v1/tools.
func (s *Server) tools(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := brief(r)
	defer cancel()
	tools, err := s.svc.Tools(ctx)
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	if tools == nil {
		tools = []justonce.ToolInfo{}
	}
	tell(w, http.StatusOK, jsonType, marshal(wireTools{Tools: tools}))
}

// healthz serves GET /healthz: the process is alive.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	tell(w, http.StatusOK, jsonType, marshal(wireStatus{Status: "alive"}))
}

// readyz serves GET /readyz: the ledger can be reached and calls are taken.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.stopping.Load() {
		s.fail(w, r, reading, errStopping)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	var err error
	if st, ok := s.svc.(stater); ok {
		_, err = st.Stats(ctx)
	} else {
		_, err = s.svc.List(ctx, justonce.Filter{Tenant: s.o.Tenant, Limit: 1})
	}
	if err != nil {
		s.log.Warn("not ready", "error", err)
		if !errors.Is(err, justonce.ErrLedgerGone) {
			err = justonce.ErrUnavailable // whatever it is
		}
		s.problem(w, problemFor(reading, err))
		return
	}
	tell(w, http.StatusOK, jsonType, marshal(wireStatus{Status: "ready"}))
}

// metricsPage serves GET /metrics.
func (s *Server) metricsPage(w http.ResponseWriter, r *http.Request) { s.metrics.ServeHTTP(w, r) }

// openAPIPage serves GET /openapi.json.
func (s *Server) openAPIPage(w http.ResponseWriter, r *http.Request) {
	doc, err := s.openAPI()
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	tell(w, http.StatusOK, jsonType, doc)
}
