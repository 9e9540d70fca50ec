package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// DefaultLimit bounds a message: 64 MiB.
const DefaultLimit = 64 << 20

// ErrTooLong is the error for a line beyond the limit. The line was skipped and
// reading can go on.
var ErrTooLong = errors.New("the message is too long")

// A LineReader reads messages that end with a newline, as MCP's stdio transport
// has them. It is not safe for concurrent use.
type LineReader struct {
	r     *bufio.Reader
	limit int
}

// NewLineReader returns a reader of lines of at most limit bytes; 0 is
// DefaultLimit.
func NewLineReader(r io.Reader, limit int) *LineReader {
	if limit == 0 {
		limit = DefaultLimit
	}
	return &LineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Read returns the next line that is not blank, without its newline. The slice
// is the caller's. A last line without a newline is half a message: it is
// returned with io.ErrUnexpectedEOF. ErrTooLong, io.EOF, or what the reader said.
func (l *LineReader) Read() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			if err == io.EOF && len(bytes.TrimSpace(line)) > 0 {
				return line, io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (l *LineReader) line() ([]byte, error) {
	var line []byte
	skip := false
	for {
		part, err := l.r.ReadSlice('\n')
		if skip = skip || len(line)+len(part) > l.limit+1; !skip {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case err == bufio.ErrBufferFull:
		case err != nil:
			return line, err
		case skip:
			return nil, ErrTooLong
		default:
			return line, nil
		}
	}
}

// A LineWriter writes messages, each on a line of its own. It is safe for
// concurrent use.
type LineWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
	err error
}

// NewLineWriter returns a writer of lines to w.
func NewLineWriter(w io.Writer) *LineWriter { return &LineWriter{w: w} }

// Write writes one message in a single call, as [AppendLine] makes it. After an
// error every later call fails, since half a line may have been written.
func (l *LineWriter) Write(message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.buf = AppendLine(l.buf[:0], message)
	_, l.err = l.w.Write(l.buf)
	if cap(l.buf) > 1<<20 {
		l.buf = nil
	}
	return l.err
}

// AppendLine appends message as one line to b. Newlines between its tokens
// become spaces; within strings JSON has none.
func AppendLine(b, message []byte) []byte {
	from := len(b)
	b = append(b, message...)
	for i := from; i < len(b); i++ {
		if b[i] == '\n' || b[i] == '\r' {
			b[i] = ' '
		}
	}
	return append(b, '\n')
}
