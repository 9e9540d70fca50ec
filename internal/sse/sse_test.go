package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/sse"
)

// all reads a stream to its end, without the raw bytes, which it joins.
func all(r *sse.Reader) (events []sse.Event, raw string, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return events, raw, err
		}
		raw += string(e.Raw)
		e.Raw = nil
		events = append(events, e)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   []sse.Event
		end    error
	}{
		"empty":                {"", nil, io.EOF},
		"one":                  {"data: {}\n\n", []sse.Event{{Data: []byte("{}")}}, io.EOF},
		"without the space":    {"data:{}\n\n", []sse.Event{{Data: []byte("{}")}}, io.EOF},
		"two spaces":           {"data:  x\n\n", []sse.Event{{Data: []byte(" x")}}, io.EOF},
		"lines are joined":     {"data: a\ndata: b\ndata\n\n", []sse.Event{{Data: []byte("a\nb\n")}}, io.EOF},
		"all fields":           {"event: message\nid: 7\nretry: 250\ndata: x\n\n", []sse.Event{{ID: "7", HasID: true, Name: "message", Data: []byte("x"), Retry: 250 * time.Millisecond}}, io.EOF},
		"a priming event":      {"id: 1\ndata:\n\n", []sse.Event{{ID: "1", HasID: true, Data: []byte{}}}, io.EOF},
		"no data at all":       {"id: 1\n\n", []sse.Event{{ID: "1", HasID: true}}, io.EOF},
		"an empty id":          {"id\n\n", []sse.Event{{HasID: true}}, io.EOF},
		"an id with a NUL":     {"id: a\x00b\ndata: x\n\n", []sse.Event{{Data: []byte("x")}}, io.EOF},
		"a comment":            {": ping\n\ndata: x\n\n", []sse.Event{{}, {Data: []byte("x")}}, io.EOF},
		"blank lines":          {"\n\n\ndata: x\n\n\n\n", []sse.Event{{Data: []byte("x")}}, io.EOF},
		"a colon in the value": {"data: a:b\n\n", []sse.Event{{Data: []byte("a:b")}}, io.EOF},
		"an unknown field":     {"what: x\n\n", []sse.Event{{}}, io.EOF},
		"retry, no number":     {"retry: -1\n\nretry: 1.5\n\nretry:\n\n", []sse.Event{{}, {}, {}}, io.EOF},
		"retry, for ever":      {"retry: 99999999999999999999\n\n", []sse.Event{{Retry: 24 * time.Hour}}, io.EOF},
		"carriage returns":     {"data: a\rdata: b\r\rdata: c\r\r", []sse.Event{{Data: []byte("a\nb")}, {Data: []byte("c")}}, io.EOF},
		"both":                 {"data: a\r\nid: 1\r\n\r\ndata: b\r\n\r\n", []sse.Event{{ID: "1", HasID: true, Data: []byte("a")}, {Data: []byte("b")}}, io.EOF},
		"a byte order mark":    {"\xef\xbb\xbfdata: a\n\n", []sse.Event{{Data: []byte("a")}}, io.EOF},
		"cut within a line":    {"data: a\n\ndata: b", []sse.Event{{Data: []byte("a")}}, io.ErrUnexpectedEOF},
		"cut before the blank": {"data: a\n\nid: 2\n", []sse.Event{{Data: []byte("a")}}, io.ErrUnexpectedEOF},
	} {
		// However the bytes come, the events are the same.
		for _, r := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream))} {
			got, raw, err := all(sse.NewReader(r))
			if d := cmp.Diff(c.want, got); d != "" || !errors.Is(err, c.end) {
				t.Errorf("%s: %v, want %v\n%s", name, err, c.end, d)
			}
			if c.end == io.EOF && strings.TrimRight(raw, "\r\n") != strings.TrimRight(c.stream, "\r\n") {
				t.Errorf("%s: raw %q", name, raw)
			}
		}
	}
}

func TestAnEventIsNotHeldBack(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, "data: x\r\n\r") }()
	e, err := sse.NewReader(r).Next() // would wait for the last \n for ever
	if err != nil || string(e.Data) != "x" {
		t.Errorf("%q %v", e.Data, err)
	}
}

func TestTheLimitHolds(t *testing.T) {
	t.Parallel()
	r := sse.NewReader(strings.NewReader("data: x\n\n" + strings.Repeat("data: y\n", 100)))
	r.Limit = 100
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("got %v", err)
		}
	}
}

func TestErrorsOfTheStreamAreReported(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: x\n\ndata: y\n"), iotest.ErrReader(broken)))
	if events, _, err := all(r); len(events) != 1 || !errors.Is(err, broken) {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte("id: 1\r\ndata: x\r\n\r\n: c\n\ndata: y\r\r"))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, raw, err := all(sse.NewReader(bytes.NewReader(b)))
		pieces, _, _ := all(sse.NewReader(iotest.OneByteReader(bytes.NewReader(b))))
		if d := cmp.Diff(whole, pieces); d != "" {
			t.Errorf("it matters how the bytes come\n%s", d)
		}
		if !bytes.HasPrefix(b, []byte(raw)) {
			t.Errorf("raw %q is not what was received: %q", raw, b)
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Error(err)
		}
	})
}
