package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/justonce-dev/justonce"
)

// resolve serves POST /v1/tool-calls/{key}/resolve: what a person found out
// about an operation in review.
func (s *Server) resolve(w http.ResponseWriter, r *http.Request) {
	var d justonce.Decision
	var verdict string
	fields := []field{
		{"verdict", toString(&verdict)},
		{"actor", toString(&d.Actor)},
		{"reason", toString(&d.Reason)},
		{"reference", toString(&d.Reference)},
		{"result", toRaw((*json.RawMessage)(&d.Result))},
	}
	err := s.decision(w, r, fields)
	d.Verdict = justonce.Verdict(verdict)
	if err == nil && d.Verdict != justonce.Happened && d.Verdict != justonce.Retry && d.Verdict != justonce.Cancel {
		err = &justonce.InvalidError{Field: "verdict", Detail: "want happened, retry or cancel"}
	}
	s.decide(w, r, d, err)
}

// redrive serves POST /v1/tool-calls/{key}/redrive: what failed is sent once
// more.
func (s *Server) redrive(w http.ResponseWriter, r *http.Request) { s.plain(w, r, justonce.Redrive) }

// cancel serves POST /v1/tool-calls/{key}/cancel: what was not sent is not
// sent.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) { s.plain(w, r, justonce.Cancel) }

func (s *Server) plain(w http.ResponseWriter, r *http.Request, v justonce.Verdict) {
	d := justonce.Decision{Verdict: v}
	err := s.decision(w, r, []field{
		{"actor", toString(&d.Actor)},
		{"reason", toString(&d.Reason)},
	})
	s.decide(w, r, d, err)
}

func (s *Server) decision(w http.ResponseWriter, r *http.Request, fields []field) error {
	if _, err := query(r); err != nil {
		return err
	}
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	return parse(body, fields)
}

func (s *Server) decide(w http.ResponseWriter, r *http.Request, d justonce.Decision, err error) {
	var a *justonce.Answer
	if err == nil {
		ctx, cancel := brief(r) // a decision made is recorded, whoever hangs up
		defer cancel()
		a, err = s.svc.Decide(ctx, s.ref(r), d)
	}
	if err != nil {
		s.fail(w, r, deciding, err)
		return
	}
	s.answer(w, http.StatusOK, a)
}
