package mcpproxy

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
)

// An outgoing is an answer being written to a client.
type outgoing struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	plain  bool // the client takes plain JSON
	stream bool // and events
	begun  bool // events are being written
	last   bool // what is written now is the end of it, and sent with it
}

// closing reports whether the connection ends with the response.
func (o *outgoing) closing() bool {
	return strings.EqualFold(o.w.Header().Get("Connection"), "close")
}

// stream gives a client what a flow has for it, until the answer, the end of the
// server's stream, or the client's leaving.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, f *flow, at *reader, resumed bool) {
	defer f.detach(at)
	out := &outgoing{w: w, rc: http.NewResponseController(w)}
	if out.plain, out.stream = accepts(r); resumed {
		out.plain, out.stream = false, true
	}
	silence := time.NewTimer(h.keepAlive)
	defer silence.Stop()
	for {
		v := f.look(at)
		err := out.events(&v, resumed)
		switch {
		case err != nil || v.lost:
			// It is gone, or reads so slowly that what it missed is not kept.
			return
		case v.over:
			return // also where the answer is there: the client comes back for it
		case v.final != nil:
			h.conclude(r, f, out, &v)
			return
		}
		select {
		case <-v.changed:
		case <-r.Context().Done():
			h.stopped(f, out)
			return
		case <-silence.C:
			// Before the server chose a form, its status has to be waited for.
			if out.begun || out.stream && (f.early || !v.begun) {
				if out.begin(v.head) != nil || out.write([]byte(": waiting\n\n")) != nil {
					return
				}
			}
			silence.Reset(h.keepAlive)
		}
	}
}

// stopped tells a client whose answer the handler's end leaves out.
func (h *Handler) stopped(f *flow, out *outgoing) {
	if h.ctx.Err() != nil && !out.begun {
		refuse(out.w, http.StatusServiceUnavailable, f.id, jsonrpc.CodeInternal,
			"the proxy is stopping: call again later, and you get what became of this call")
	}
}

// events writes what the server said before its answer.
func (o *outgoing) events(v *view, resumed bool) error {
	if v.head != nil && v.head.stream || len(v.blocks) > 0 || resumed {
		if err := o.begin(v.head); err != nil {
			return err
		}
	}
	if len(v.blocks) == 0 {
		return nil
	}
	var b []byte
	for _, x := range v.blocks {
		b = append(b, x.raw...)
	}
	return o.write(b)
}

// begin begins a stream of events.
func (o *outgoing) begin(h *head) error {
	if o.begun {
		return nil
	}
	o.begun = true
	status := http.StatusOK
	if h != nil && h.stream {
		copyHeader(o.w.Header(), h.header)
		status = h.status
	}
	o.w.Header().Set("Content-Type", "text/event-stream")
	if o.w.Header().Get("Cache-Control") == "" {
		o.w.Header().Set("Cache-Control", "no-cache, no-transform")
	}
	o.w.WriteHeader(status)
	return o.rc.Flush()
}

func (o *outgoing) write(b []byte) error {
	if _, err := o.w.Write(b); err != nil || o.last {
		return err
	}
	return o.rc.Flush()
}

// conclude writes the answer, and finds out whether it arrives.
func (h *Handler) conclude(r *http.Request, f *flow, out *outgoing, v *view) {
	res := v.final
	if res.raw == nil && !res.mirror {
		switch {
		case out.begun:
		case h.ctx.Err() != nil:
			h.stopped(f, out)
		case out.stream:
			_ = out.begin(v.head) // it took the call back: there is no answer
		default:
			out.w.WriteHeader(http.StatusAccepted)
		}
		return
	}
	e := watchConnection(r)
	// Where the connection tells when all is written, the answer and the end of
	// the response go out as one: a client that has the answer has both, and one
	// that then closes does it in good order.
	out.last = e.l != nil && !e.closes && !out.closing()
	err := out.answer(f, v)
	if err == nil && e.l == nil {
		err = r.Context().Err()
	}
	if res.delivery == nil || err != nil {
		return // see update
	}
	f.mu.Lock()
	f.settling++
	f.mu.Unlock()
	settle := func() {
		arrived := e.arrived(h.ctx) && !f.unwanted.Load()
		f.mu.Lock()
		f.settling--
		f.mu.Unlock()
		if arrived {
			h.kept.arrived(f)
		} else {
			h.kept.update(f)
		}
	}
	if e.closes = e.closes || out.closing(); e.closes {
		settle() // once the handler returns, the connection can tell nothing
		return
	}
	h.working.Go(settle)
}

// answer writes the answer as a whole.
func (o *outgoing) answer(f *flow, v *view) error {
	res, head := v.final, v.head
	raw := res.raw
	direct := head != nil && head.answered
	switch {
	case res.mirror && (head == nil || o.begun):
		raw = jsonrpc.ErrorResponse(f.id, unmirrored(head))
	case res.mirror:
		copyHeader(o.w.Header(), head.header)
		o.w.Header().Set("Content-Length", strconv.Itoa(len(head.body)))
		o.w.WriteHeader(head.status)
		return o.write(head.body)
	case o.begun, direct && head.stream, !o.plain && (!direct || head.status == http.StatusOK):
	default:
		status := http.StatusOK
		if direct {
			copyHeader(o.w.Header(), head.header)
			status = head.status
		}
		o.w.Header().Set("Content-Type", "application/json")
		o.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		o.w.WriteHeader(status)
		return o.write(raw)
	}
	if err := o.begin(head); err != nil {
		return err
	}
	if direct && v.closing != nil {
		return o.write(redata(v.closing, raw))
	}
	return o.write(event(raw))
}

// unmirrored tells what a server answered at the level of HTTP to a client that
// has its status already.
func unmirrored(h *head) []byte {
	if h == nil {
		return jsonrpc.ErrorObject(jsonrpc.CodeInternal, "the call was not made", nil)
	}
	return jsonrpc.ErrorObject(jsonrpc.CodeInternal, fmt.Sprintf("the server refused the call: %d %s", h.status, http.StatusText(h.status)), nil)
}

// event returns a message as an event.
func event(message []byte) []byte {
	b := append(make([]byte, 0, len(message)+24), "event: message\ndata: "...)
	return append(jsonrpc.AppendLine(b, message), '\n')
}

// redata returns an event as it was, but for its data.
func redata(e *sse.Event, message []byte) []byte {
	var b []byte
	done := false
	for line := range bytes.Lines(e.Raw) {
		if name, _, _ := bytes.Cut(line, []byte(":")); !bytes.Equal(bytes.TrimRight(name, "\r\n"), []byte("data")) {
			b = append(b, line...)
			continue
		}
		if !done {
			done = true
			b = append(b, "data: "...)
			b = jsonrpc.AppendLine(b, message)
		}
	}
	return b
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
}

// resume serves a client that comes back to a call; false: it does not.
func (h *Handler) resume(w http.ResponseWriter, r *http.Request) bool {
	id := r.Header.Get(headerLastEvent)
	if id == "" {
		return false
	}
	f, at := h.kept.find(h.owner(r), id)
	if f == nil {
		return false
	}
	h.stream(w, r, f, at, true)
	return true
}
