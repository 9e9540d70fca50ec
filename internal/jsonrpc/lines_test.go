package jsonrpc_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

func TestLinesAreRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000) // more than is buffered
	for name, c := range map[string]struct {
		in   string
		want []string
		end  error
	}{
		"none":             {"", nil, io.EOF},
		"two":              {"{}\n[]\n", []string{"{}", "[]"}, io.EOF},
		"blank ones":       {"\n \n\r\n{}\n\n", []string{"{}"}, io.EOF},
		"carriage returns": {"{}\r\n", []string{"{}"}, io.EOF},
		"half a line":      {"{}\n{", []string{"{}", "half {"}, io.EOF},
		"spaces at end":    {"{}\n  ", []string{"{}"}, io.EOF},
		"just as long":     {long + "\n", []string{long}, io.EOF},
		"too long":         {"1\n" + long + "x\n2\n", []string{"1", "too long", "2"}, io.EOF},
		"too long, half":   {"1\n" + long + "xx", []string{"1"}, io.EOF},
	} {
		r := jsonrpc.NewLineReader(strings.NewReader(c.in), len(long))
		var got []string
		var end error
		for end == nil {
			line, err := r.Read()
			switch {
			case errors.Is(err, jsonrpc.ErrTooLong):
				got = append(got, "too long")
			case err == io.ErrUnexpectedEOF:
				got = append(got, "half "+string(line))
			case err != nil:
				end = err
			default:
				got = append(got, string(line))
			}
		}
		if d := cmp.Diff(c.want, got); d != "" || end != c.end {
			t.Errorf("%s: %v %s", name, end, d)
		}
	}
	broken := errors.New("broken")
	if _, err := jsonrpc.NewLineReader(iotest.ErrReader(broken), 0).Read(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestReadLinesAreTheCallers(t *testing.T) {
	t.Parallel()
	r := jsonrpc.NewLineReader(strings.NewReader("first\nother\n"), 0)
	first, _ := r.Read()
	_, _ = r.Read()
	if string(first) != "first" {
		t.Errorf("became %q", first)
	}
}

func TestLinesAreWritten(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := jsonrpc.NewLineWriter(&b)
	message := []byte("{\r\n \"a\": \"\\n\"\n}")
	for _, m := range [][]byte{message, bytes.Repeat([]byte("x"), 2<<20), []byte("[]")} {
		if err := w.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.SplitAfter(b.String(), "\n")
	if len(lines) != 4 || lines[0] != "{   \"a\": \"\\n\" }\n" || lines[2] != "[]\n" || lines[3] != "" {
		t.Errorf("got %d lines, the first %q", len(lines), lines[0])
	}
	if !bytes.Contains(message, []byte("\n")) {
		t.Error("the caller's bytes were changed")
	}
}

// broken takes half of what it is given, once.
type broken struct{ writes int }

func (w *broken) Write(p []byte) (int, error) {
	w.writes++
	return len(p) / 2, io.ErrClosedPipe
}

func TestNothingFollowsHalfALine(t *testing.T) {
	t.Parallel()
	b := &broken{}
	w := jsonrpc.NewLineWriter(b)
	for range 2 {
		if err := w.Write([]byte("{}")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	}
	if b.writes != 1 {
		t.Errorf("%d writes", b.writes)
	}
}
