package postgres

import (
	"bytes"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// What a buffer holds is sent with the next flush, after which the frontend has
// let go of it: the store uses it again for another connection.
func TestSendBuffer(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 100, fewBytes, fewBytes + 1, fewBytes + 2, 2000, 70_000} {
		var sent bytes.Buffer
		f := pgproto3.NewFrontend(bytes.NewReader(nil), io.Writer(&sent))
		param := bytes.Repeat([]byte("p"), n)
		f.Send(&pgproto3.Sync{})
		s := reserve(f, []query{{statement: &statement{}, params: [][]byte{param}}})
		if (s != nil) != (n > fewBytes) {
			t.Errorf("%d bytes: a buffer is reserved: %v", n, s != nil)
		}
		f.SendBind(&pgproto3.Bind{Parameters: [][]byte{param}})
		f.SendSync(&pgproto3.Sync{})
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(sent.Bytes(), param) || sent.Bytes()[0] != 'S' {
			t.Errorf("%d bytes: something was lost of what had to be sent", n)
		}
		if s == nil {
			continue
		}
		mine := s.b[:cap(s.b)]
		for i := range mine {
			mine[i] = 'm'
		}
		f.SendQuery(&pgproto3.Query{String: "SELECT"})
		if bytes.Count(mine, []byte("m")) != len(mine) {
			t.Errorf("%d bytes: the frontend writes to a buffer that was flushed", n)
		}
	}
}
