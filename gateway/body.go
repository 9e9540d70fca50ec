package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/canon"
)

// bodyTime bounds how long a request's body may take to arrive.
const bodyTime = 30 * time.Second

// maxDepth is the depth that arguments may have, and the envelope's own.
const maxDepth = canon.DefaultMaxDepth + 1

// limitBody gives a request's body its time. It holds, too, for a body that no
// handler reads: net/http reads what is left of it before it answers.
func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
}

// body reads a request's body and sees to it that it is one strict JSON object.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := wantJSON(r); err != nil {
		return nil, err
	}
	tooLarge := &justonce.InvalidError{Field: "body", TooLarge: true,
		Detail: "it may have " + strconv.FormatInt(s.o.MaxBody, 10) + " bytes"}
	if r.ContentLength > s.o.MaxBody {
		return nil, tooLarge
	}
	var body []byte
	var err error
	// The buffer is never used again: the arguments lie in it, and there is no
	// telling how long a service or a tool looks at them.
	if n := r.ContentLength; n >= 0 && n <= 64<<10 {
		body = make([]byte, n)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(io.LimitReader(r.Body, s.o.MaxBody+1))
	}
	if err != nil {
		return nil, &justonce.InvalidError{Field: "body", Detail: "it did not arrive whole"}
	}
	if int64(len(body)) > s.o.MaxBody {
		return nil, tooLarge
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // waiting is no slowness
	return body, s.strictly(body)
}

// strictly refuses what is no strict JSON object.
func (s *Server) strictly(body []byte) error {
	if err := canon.Valid(body, s.strict); err != nil {
		return &justonce.InvalidError{Field: "body", Detail: err.Error()}
	}
	if trim(body)[0] != '{' {
		return &justonce.InvalidError{Field: "body", Detail: "it must be a JSON object"}
	}
	return nil
}

// A field is a member of a request's body and where its value goes.
type field struct {
	name string
	set  func(raw []byte) string // returns what is wrong, or ""
}

// parse distributes the members of body. Members that are not listed are
// refused by name. null is the same as leaving a member out.
func parse(body []byte, fields []field) error {
	var err error
next:
	for name, raw := range members(body) {
		for _, f := range fields {
			if f.name != name {
				continue
			}
			if raw = trim(raw); string(raw) == "null" {
				continue next
			}
			if wrong := f.set(raw); wrong != "" {
				return &justonce.InvalidError{Field: name, Detail: wrong}
			}
			continue next
		}
		if err == nil {
			err = &justonce.InvalidError{Field: clip(name), Detail: "there is no such member; " + names(fields)}
		}
	}
	return err
}

func names(fields []field) string {
	s := "there are "
	for i, f := range fields {
		if i > 0 {
			s += ", "
		}
		s += f.name
	}
	return s
}

// clip bounds what of a request is repeated in an answer.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

func toString(dst *string) func([]byte) string {
	return func(raw []byte) string {
		s, ok := unquote(raw)
		if !ok {
			return "it must be a string"
		}
		*dst = s
		return ""
	}
}

func toRaw(dst *json.RawMessage) func([]byte) string {
	return func(raw []byte) string { *dst = raw; return "" }
}

func toCount(dst *int) func([]byte) string {
	return func(raw []byte) string {
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 1 {
			return "it must be a whole number from 1"
		}
		*dst = n
		return ""
	}
}

// parseCall reads the body of a call.
func parseCall(body []byte) (c justonce.Call, err error) {
	err = parse(body, []field{
		{"name", toString(&c.Tool)},
		{"arguments", toRaw(&c.Arguments)},
		{"scope", toString(&c.Scope)},
		{"run_id", toString(&c.RunID)},
		{"intent_seq", toCount(&c.IntentSeq)},
	})
	switch {
	case err != nil:
	case c.Tool == "":
		err = &justonce.InvalidError{Field: "name", Detail: "say which tool to call"}
	case len(c.Arguments) > 0 && c.Arguments[0] != '{':
		err = &justonce.InvalidError{Field: "arguments", Detail: "they must be a JSON object"}
	}
	return c, err
}
