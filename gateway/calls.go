package gateway

import (
	"context"
	"net/http"
	"net/url"

	"github.com/justonce-dev/justonce"
)

// errStopping: the request came in time, and too late.
var errStopping error = problemOf(slugStopping, "the gateway is shutting down; nothing was sent")

// request reads a call from body and headers.
func (s *Server) request(w http.ResponseWriter, r *http.Request) (c justonce.Call, err error) {
	key, err := parseKey(r.Header["Idempotency-Key"])
	if err != nil {
		return c, err
	}
	body, err := s.body(w, r)
	if err != nil {
		return c, err
	}
	c, err = parseCall(body)
	c.Tenant, c.Key = s.o.Tenant, key
	c.TraceParent = traceParent(r.Header["Traceparent"])
	return c, err
}

// call serves POST /v1/tool-calls.
func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	c, err := s.request(w, r)
	if err != nil {
		s.fail(w, r, calling, err)
		return
	}
	if s.stopping.Load() {
		s.fail(w, r, calling, errStopping)
		return
	}
	patience := s.prefer(r.Header)
	ctx := r.Context()
	if c.NoWait = patience.wait == 0; !c.NoWait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience.wait)
		defer cancel()
	}
	a, err := s.svc.Do(ctx, c)
	if err != nil {
		s.fail(w, r, calling, err)
		return
	}
	h := w.Header()
	if patience.applied != "" {
		h["Preference-Applied"] = []string{patience.applied}
	}
	if a.Replayed {
		h["Idempotent-Replayed"] = isTrue
	}
	status := http.StatusOK
	if again := retryAfter(a.Operation); again > 0 {
		status = http.StatusAccepted
		h["Location"] = []string{location(a.Operation.Key)}
		h["Retry-After"] = []string{itoa(again)}
	}
	s.answer(w, status, a)
}

// answer writes a, the result as it was recorded.
func (s *Server) answer(w http.ResponseWriter, status int, a *justonce.Answer) {
	p := buffers.Get().(*[]byte)
	o := object{(*p)[:0]}
	o.answer(a)
	o.b = append(o.b, '\n')
	tell(w, status, jsonType, o.b)
	*p = o.b
	release(p)
}

// location is the path of an operation, its key as one segment.
func location(key string) string { return "/v1/tool-calls/" + escapeKey(key) }

// escapeKey escapes key as one path segment, such that nothing on the way
// takes it for "here" or "above".
func escapeKey(key string) string {
	switch key {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return url.PathEscape(key)
}

// explain serves POST /v1/explain: which operation a call means, and why.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	x, ok := s.svc.(explainer)
	if !ok {
		s.fail(w, r, reading, problemOf(slugUnsupported, "it does not explain calls"))
		return
	}
	c, err := s.request(w, r)
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	ctx, cancel := brief(r)
	defer cancel()
	why, err := x.Explain(ctx, c)
	if err != nil {
		s.fail(w, r, reading, err)
		return
	}
	tell(w, http.StatusOK, jsonType, marshal(why))
}
