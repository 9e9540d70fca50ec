package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// maxBody is the largest request body accepted; a larger one is answered 413 without effect.
const maxBody = 1 << 20

// Error is what the sandbox answers instead of a result: on the wire {"error":{...}}, and the error
// type of Client and of the Provider's methods.
type Error struct {
	Status     int    `json:"-"`                     // HTTP status
	Type       string `json:"type"`                  // family, such as idempotency_error
	Code       string `json:"code"`                  // what exactly, such as idempotency_key_in_use
	Message    string `json:"message"`               // one sentence for a person
	ExistingID string `json:"existing_id,omitempty"` // with duplicate_external_id: the id it belongs to
}

func (e *Error) Error() string {
	return fmt.Sprintf("sandbox: %d %s: %s", e.Status, e.Code, e.Message)
}

func errorf(status int, typ, code, format string, args ...any) *Error {
	return &Error{Status: status, Type: typ, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) reply() reply {
	return reply{status: e.Status, body: append(encode(map[string]*Error{"error": e}), '\n')}
}

// reply is an answer before anything goes wrong with it.
type reply struct {
	status     int
	body       []byte
	replayed   bool
	retryAfter int // seconds; 0 leaves the header out
}

func (rep reply) header(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(rep.body)))
	if rep.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if rep.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(rep.retryAfter))
	}
}

func (rep reply) send(w http.ResponseWriter) {
	rep.header(w.Header())
	w.WriteHeader(rep.status)
	w.Write(rep.body) // nobody is left to tell when this fails
}

func sendError(w http.ResponseWriter, e *Error) { e.reply().send(w) }

func sendJSON(w http.ResponseWriter, status int, v any) {
	reply{status: status, body: append(encode(v), '\n')}.send(w)
}

// encode is JSON with members of maps sorted and <, > and & left alone. The values are ours or came
// out of a JSON decoder, so it cannot fail.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("sandbox: encoding %T: %v", v, err))
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// readBody reads a whole body of at most maxBody bytes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Error) {
	var buf bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxBody {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errorf(http.StatusRequestEntityTooLarge, "invalid_request_error", "body_too_large",
			"The body is larger than %d bytes.", maxBody)
	case err != nil:
		return nil, errorf(http.StatusBadRequest, "invalid_request_error", "body_unreadable", "The body could not be read.")
	}
	return buf.Bytes(), nil
}

// decodeObject decodes exactly one JSON object. Numbers stay as they were written.
func decodeObject(data []byte) (map[string]any, *Error) {
	bad := func(why string) *Error {
		return errorf(http.StatusBadRequest, "invalid_request_error", "invalid_json", "The body is not a JSON object: %s.", why)
	}
	if !utf8.Valid(data) {
		return nil, bad("it is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var fields map[string]any
	switch err := dec.Decode(&fields); {
	case err == io.EOF:
		return nil, bad("it is empty")
	case err != nil:
		return nil, bad(err.Error())
	case fields == nil:
		return nil, bad("it is null")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, bad("something follows it")
	}
	return fields, nil
}

// textOf is a member's value for comparing and showing: strings bare, everything else as JSON.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(encode(v))
}
