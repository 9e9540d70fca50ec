// Package sse reads streams of server-sent events, as the HTML standard
// describes them in "Server-sent events", and keeps their bytes.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// DefaultLimit bounds an event: 64 MiB.
const DefaultLimit = 64 << 20

// ErrTooLong is the error for an event beyond the limit. The stream cannot be
// read any further.
var ErrTooLong = errors.New("the event is too long")

// An Event is one block of a stream. Blocks that hold nothing but comments, as
// servers send them to keep a connection alive, are events too: without data.
type Event struct {
	ID    string // the event's own, not that of an earlier one
	HasID bool   // also where the id is empty
	Name  string // "" is "message"
	// Data is nil where there is no data field; several are joined by newlines.
	Data []byte
	// Retry is how long to wait before a reconnect; 0 where nothing is said.
	Retry time.Duration
	// Raw is the event as it was received, with the blank line that ends it.
	// Those of all events, one after the other, are the stream.
	Raw []byte
}

// maxRetry keeps a server from putting a client to sleep.
const maxRetry = 24 * time.Hour

// A Reader reads events. It is not safe for concurrent use.
type Reader struct {
	// Limit bounds an event's bytes; 0 is DefaultLimit.
	Limit int

	r     *bufio.Reader
	begun bool
	cr    bool // the last byte was a \r, whose \n may be yet to come
	err   error
}

// NewReader returns a reader of the events of r. It reads ahead.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 16<<10)} }

// Next returns the next event; its slices are the caller's. The error is io.EOF
// at a clean end, io.ErrUnexpectedEOF where the stream ended within an event,
// which is dropped as the standard wants it, ErrTooLong, or what the stream
// said. It stays.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	e, err := r.next()
	if err != nil {
		r.err = err
		return Event{}, err
	}
	return e, nil
}

func (r *Reader) next() (Event, error) {
	var e Event
	for fields := false; ; {
		from := len(e.Raw)
		raw, err := r.line(e.Raw)
		if err != nil {
			if err == io.EOF && len(bytes.Trim(raw, "\r\n")) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return e, err
		}
		e.Raw = raw
		line := bytes.Trim(raw[from:], "\r\n")
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) > 0 {
			e.field(line)
			fields = true
		} else if fields {
			return e, nil
		}
	}
}

// line appends the next line with its end to raw: \n, \r\n, or \r alone.
func (r *Reader) line(raw []byte) ([]byte, error) {
	limit := r.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	for {
		if _, err := r.r.Peek(1); err != nil {
			return raw, err
		}
		have, _ := r.r.Peek(r.r.Buffered())
		end := bytes.IndexAny(have, "\r\n")
		n := end + 1
		if end < 0 {
			n = len(have)
		} else if have[end] == '\r' && n < len(have) && have[n] == '\n' {
			n++
		}
		if r.cr && have[0] == '\n' {
			end, n = -1, 1
		}
		if len(raw)+n > limit {
			return raw, ErrTooLong
		}
		raw = append(raw, have[:n]...)
		_, _ = r.r.Discard(n) // it is buffered
		// The \n after a \r is not waited for if it has not arrived: that would
		// hold the event back. It then leads what is read next.
		r.cr = have[n-1] == '\r'
		if end >= 0 {
			return raw, nil
		}
	}
}

func (e *Event) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if e.Data != nil {
			e.Data = append(e.Data, '\n')
		} else {
			e.Data = make([]byte, 0, len(value))
		}
		e.Data = append(e.Data, value...)
	case "event":
		e.Name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.ID, e.HasID = string(value), true
		}
	case "retry":
		if len(value) > 0 && len(bytes.Trim(value, "0123456789")) == 0 {
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || n > maxRetry.Milliseconds() {
				n = maxRetry.Milliseconds()
			}
			e.Retry = time.Duration(n) * time.Millisecond
		}
	}
}
