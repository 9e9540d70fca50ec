package sandbox

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultLimit = 20
	maxLimit     = 100
)

// read is the way of every GET of a service. Faults strike it only where they are told to.
func (p *Provider) read(w http.ResponseWriter, r *http.Request, s *service, answer func(*call) reply) {
	c := &call{service: s, r: r, fields: map[string]any{}}
	for name, values := range r.URL.Query() {
		c.fields[name] = values[0]
	}
	if id := r.PathValue("id"); id != "" {
		c.fields["id"] = id
	}
	var bad *Error
	if c.own, bad = headerFaults(r.Header); bad != nil {
		sendError(w, bad)
		return
	}
	if f := p.faults.take(c, phaseBefore); f != nil {
		strikeBefore(w, f)
		return
	}
	if f := p.faults.take(c, phaseSlow); f != nil {
		select {
		case <-p.opt.After(f.Delay):
		case <-r.Context().Done():
		case <-p.closed:
			abort(w, nil)
			return
		}
	}
	rep := answer(c)
	hit := strikes{p.faults.take(c, phaseFail), p.faults.take(c, phaseDelay), p.faults.take(c, phaseCut)}
	if hit.fail != nil {
		rep = internalError()
	}
	p.deliver(w, r, rep, hit)
}

// get answers with the object that has an id.
func (p *Provider) get(c *call) reply {
	v := p.tally.view()
	id := c.r.PathValue("id")
	i, ok := v.find(c.service, id)
	if !ok {
		return notFound(c.service, "id "+strconv.Quote(id))
	}
	return reply{status: http.StatusOK, body: p.show(v, i)}
}

func notFound(s *service, what string) reply {
	return errorf(http.StatusNotFound, "invalid_request_error", "resource_missing", "There is no %s with %s.", s.name, what).reply()
}

// list answers with recent objects, newest first; of tickets, with the one that has the external_id.
func (p *Provider) list(c *call) reply {
	s := c.service
	want, bad := readFilter(c)
	if bad != nil {
		return bad.reply()
	}
	if s.name == Mail {
		want.lag = p.opt.MailLag
	}
	if f := p.faults.take(c, phaseList); f != nil {
		want.lag = max(want.lag, f.Delay)
	}
	found, v := p.tally.recent(s, want, p.opt.Now())
	if s.unique {
		if len(found) == 0 {
			return notFound(s, s.reference+" "+strconv.Quote(want.ref))
		}
		return reply{status: http.StatusOK, body: p.show(v, found[0])}
	}
	page := struct {
		Data    []json.RawMessage `json:"data"`
		HasMore bool              `json:"has_more"`
	}{Data: []json.RawMessage{}, HasMore: len(found) > want.limit}
	for _, i := range found[:min(len(found), want.limit)] {
		page.Data = append(page.Data, p.show(v, i))
	}
	return reply{status: http.StatusOK, body: append(encode(page), '\n')}
}

type filter struct {
	ref    string
	hasRef bool
	since  time.Time
	limit  int
	lag    time.Duration
}

func readFilter(c *call) (filter, *Error) {
	bad := func(format string, args ...any) (filter, *Error) {
		return filter{}, errorf(http.StatusBadRequest, "invalid_request_error", "parameter_invalid", format, args...)
	}
	want := filter{limit: defaultLimit}
	for name, v := range c.fields {
		text, _ := v.(string)
		var err error
		switch {
		case name == c.service.reference && text != "":
			want.ref, want.hasRef = text, true
		case name == "limit" && !c.service.unique:
			if want.limit, err = strconv.Atoi(text); err != nil || want.limit < 1 || want.limit > maxLimit {
				return bad("limit must be a number from 1 to %d.", maxLimit)
			}
		case name == "since" && !c.service.unique:
			if want.since, err = time.Parse(time.RFC3339, text); err != nil {
				return bad("since must be a time such as 2026-01-02T15:04:05Z.")
			}
		default:
			return bad("The query %s=%s means nothing here.", name, text)
		}
	}
	if c.service.unique && !want.hasRef {
		return bad("%s is required; %s cannot be listed.", c.service.reference, c.service.path)
	}
	return want, nil
}

// recent returns at most limit+1 entries, newest first, and the view they are of.
func (t *tally) recent(s *service, want filter, now time.Time) ([]int, view) {
	t.mu.Lock()
	v, i := t.viewLocked(), len(t.entries)-1
	if want.hasRef {
		i = -1
		if newest, ok := t.latest[s.index][want.ref]; ok {
			i = int(newest)
		}
	}
	t.mu.Unlock()

	var found []int
	for i >= 0 && len(found) <= want.limit {
		e := &v.entries[i]
		if e.service == s.index && e.at <= now.UnixNano()-int64(want.lag) && (want.since.IsZero() || e.at >= want.since.UnixNano()) {
			found = append(found, i)
		}
		if want.hasRef {
			i = int(e.older)
		} else {
			i--
		}
	}
	return found, v
}

// render is an object as it was made: what the POST answered. The request's members are part of it,
// but for those that the provider sets.
func (v view) render(i int) []byte {
	e := &v.entries[i]
	s := &services[e.service]
	if s.name == Job {
		return v.renderJob(i, jobEnd{Status: s.state})
	}
	own := map[string]any{"created_at": time.Unix(0, e.at).UTC(), "id": v.id(i), "object": s.name, "status": s.state}
	mentioned := func(name string) bool { return strings.Contains(e.intent, `"`+name+`":`) }
	if !slices.ContainsFunc([]string{"created_at", "id", "object", "status"}, mentioned) { // the usual case: no decoding
		b := encode(own)
		if len(e.intent) > len("{}") {
			b = append(append(b[:len(b)-1], ','), e.intent[1:]...)
		}
		return append(b, '\n')
	}
	merged, _ := decodeObject([]byte(e.intent)) // it came out of encode
	maps.Copy(merged, own)
	return append(encode(merged), '\n')
}

// show is an object as it is now.
func (p *Provider) show(v view, i int) []byte {
	if services[v.entries[i].service].name != Job {
		return v.render(i)
	}
	return v.renderJob(i, p.jobState(v, i))
}
