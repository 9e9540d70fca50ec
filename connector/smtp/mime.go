package smtpconn

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
)

// A writer writes a mail in ASCII, with lines short enough for any server. The
// first error stays.
type writer struct {
	b   bytes.Buffer
	err error
}

const (
	lineLength = 76
	// longestWord leaves room for the name of the field in the 998 that a line
	// may have.
	longestWord = 900
)

// field writes a header field, folded at spaces.
func (w *writer) field(name, value string) {
	w.b.WriteString(name + ":")
	column := len(name) + 1
	for _, word := range strings.Split(value, " ") {
		if len(word) > longestWord {
			w.fail("header %s: a word has more than %d characters", name, longestWord)
			return
		}
		first := column == len(name)+1 && !strings.HasPrefix(word, "=?")
		if !first && word != "" && column+1+len(word) > lineLength {
			w.b.WriteString("\r\n")
			column = 0
		}
		w.b.WriteString(" " + word)
		column += 1 + len(word)
	}
	w.b.WriteString("\r\n")
}

// text writes a header field of any text.
func (w *writer) text(name, value string) {
	if strings.ContainsFunc(value, control) {
		w.fail("header %s: a control character is refused", name)
		return
	}
	w.field(name, mime.QEncoding.Encode("utf-8", strings.TrimSpace(strings.ToValidUTF8(value, "\uFFFD"))))
}

func (w *writer) fail(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, a...)
	}
}

// body ends the header and writes the body: one part, or both as alternatives.
func (w *writer) body(text, html, id string) {
	w.field("MIME-Version", "1.0")
	switch {
	case text == "" && html == "":
		w.fail("the mail has no text")
	case html == "":
		w.single("text/plain; charset=utf-8", text)
	case text == "":
		w.single("text/html; charset=utf-8", html)
	default:
		m := multipart.NewWriter(&w.b)
		h := sha256.Sum256([]byte("boundary " + id))
		if err := m.SetBoundary("jo_" + hex.EncodeToString(h[:15])); err != nil {
			w.fail("%v", err)
		}
		w.field("Content-Type", "multipart/alternative; boundary="+m.Boundary())
		w.b.WriteString("\r\n")
		for _, part := range [][2]string{{"text/plain; charset=utf-8", text}, {"text/html; charset=utf-8", html}} {
			p, err := m.CreatePart(textproto.MIMEHeader{
				"Content-Type": {part[0]}, "Content-Transfer-Encoding": {"quoted-printable"}})
			if err != nil {
				w.fail("%v", err)
				return
			}
			q := quotedprintable.NewWriter(p)
			_, _ = q.Write([]byte(part[1]))
			_ = q.Close()
		}
		_ = m.Close()
	}
}

func (w *writer) single(contentType, text string) {
	w.field("Content-Type", contentType)
	w.field("Content-Transfer-Encoding", "quoted-printable")
	w.b.WriteString("\r\n")
	q := quotedprintable.NewWriter(&w.b)
	_, _ = q.Write([]byte(text))
	_ = q.Close()
}
