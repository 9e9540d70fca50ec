package mcpproxy

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A Peer is the server's end of a conversation in lines, such as a
// *mcpconn.Process. Write hands over one message; an error that is
// mcpconn.ErrNotSent says that nothing of it was or will be sent. Done is closed
// once the server has ended and all that it said was handled; Err then says how.
type Peer interface {
	Write(line []byte) error
	Done() <-chan struct{}
	Err() error
	Close()
}

// StdioOptions say between what [Server.ServeStdio] stands.
type StdioOptions struct {
	In  io.Reader // the client's messages
	Out io.Writer // and the server's
	// Start starts the server; handle gets each of its messages, in order. It is
	// called again when the server has ended and is needed.
	Start func(handle func(line []byte)) (Peer, error)
	// Limit bounds a message. Defaults to 64 MiB.
	Limit int
	// Linger is how long calls with effects that were sent may take to end once
	// the client has closed its side; everything else gets 30s of it. Defaults to
	// 5m.
	Linger time.Duration
}

// ServeStdio stands between one client and one server until the client closes
// In, ctx ends, or the client is gone. Calls that were sent are then waited for,
// up to Linger; the server is closed before it returns. The error tells why the
// server could not be started the first time, or why reading failed.
func (s *Server) ServeStdio(ctx context.Context, o *StdioOptions) error {
	r := newRelay(ctx, s, o)
	if err := r.connect(ctx); err != nil {
		r.close()
		return err
	}
	defer s.lend(r)()
	lines := make(chan inputLine)
	stop := make(chan struct{})
	defer close(stop)
	go readLines(jsonrpc.NewLineReader(o.In, o.Limit), lines, stop)
	var err error
	for {
		select {
		case l := <-lines:
			if l.err != nil {
				if !errors.Is(l.err, io.EOF) {
					err = l.err
				}
				r.linger()
				return err
			}
			r.fromClient(l.line, l.bad)
			continue
		case <-r.lost:
		case <-ctx.Done():
		}
		r.linger()
		return err
	}
}

type inputLine struct {
	line []byte
	bad  error // the line is no message
	err  error // no more lines
}

func readLines(in *jsonrpc.LineReader, to chan<- inputLine, stop <-chan struct{}) {
	for {
		line, err := in.Read()
		l := inputLine{line: line}
		switch {
		case errors.Is(err, jsonrpc.ErrTooLong):
			l.bad = err
		case errors.Is(err, io.ErrUnexpectedEOF):
			// Half a message: whoever wrote it died over it.
			l.err = io.EOF
		case err != nil:
			l.err = err
		}
		select {
		case to <- l:
		case <-stop:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// receipts are the answers written to a client of which it is not known yet
// whether they arrived.
type receipts struct {
	out     outlet
	reports sync.WaitGroup

	mu      sync.Mutex
	written int64 // bytes, all in all
	list    []receipt
	timer   *time.Timer
	wait    time.Duration
	stopped bool
}

type receipt struct {
	d   *delivery
	id  string    // the client's, of the request
	end int64     // of the answer, in bytes written
	at  time.Time // when it was written
}

// crossing is how long a client may have had an answer before it says that it
// did not want it any more: its word was on the way. What it says in the meantime
// it says after that.
const crossing = 100 * time.Millisecond

// wrote notes that n bytes were written, the answer to a request, for which d
// waits; nil: nobody.
func (r *receipts) wrote(n int, id string, d *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written += int64(n)
	if d == nil {
		return
	}
	r.list = append(r.list, receipt{d, id, r.written, time.Now()})
	r.wait = crossing
	if r.timer == nil {
		r.timer = time.AfterFunc(r.wait, func() { r.check(false, crossing) })
	} else if len(r.list) == 1 {
		r.timer.Reset(r.wait)
	}
}

// unwanted is told that the client takes a request back.
func (r *receipts) unwanted(id string) {
	r.lose(func(x *receipt) bool { return x.id == id })
}

// check reports the answers that the client has taken and that were written so
// long ago; with final, also that the others did not arrive.
func (r *receipts) check(final bool, ago time.Duration) {
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return
	}
	r.stopped = final
	var arrived, lost []*delivery
	if len(r.list) > 0 {
		n, exact, gone, known := r.out.unread()
		rest := r.list[:0:0]
		for _, x := range r.list {
			switch {
			case time.Since(x.at) < ago:
				rest = append(rest, x)
			case r.took(&x, n, exact, known):
				arrived = append(arrived, x.d)
			case gone || final:
				lost = append(lost, x.d)
			default:
				rest = append(rest, x)
			}
		}
		r.list = rest
	}
	if len(r.list) > 0 {
		r.timer.Reset(r.wait)
		r.wait = min(2*r.wait, 2*time.Second)
	}
	for _, d := range arrived {
		r.reports.Go(func() { d.report(true) }) // writes to the ledger
	}
	r.mu.Unlock()
	for _, d := range lost {
		d.report(false)
	}
}

// verdict tells now which answers the client has taken, for a call that came
// just now. The func that it returns reports by it on the answers of one
// operation: those that were not taken did not arrive before the call.
func (r *receipts) verdict() func(a *arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return func(*arrival) {}
	}
	taken := map[*delivery]bool{}
	n, exact, _, known := r.out.unread()
	for _, x := range r.list {
		taken[x.d] = r.took(&x, n, exact, known)
	}
	return func(a *arrival) {
		for _, d := range r.remove(func(x *receipt) bool { return x.d.of == a }) {
			d.report(taken[d])
		}
	}
}

// took reports whether the client has taken an answer of what was written, of
// which n bytes are left.
func (r *receipts) took(x *receipt, n int, exact, known bool) bool {
	return !known || n == 0 || exact && x.end <= r.written-int64(n)
}

// lose reports that answers did not arrive, if that is still open.
func (r *receipts) lose(which func(x *receipt) bool) {
	for _, d := range r.remove(which) {
		d.report(false)
	}
}

// remove takes answers off the list of those of which nothing is known.
func (r *receipts) remove(which func(x *receipt) bool) []*delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*delivery
	rest := r.list[:0:0]
	for _, x := range r.list {
		if which(&x) {
			out = append(out, x.d)
		} else {
			rest = append(rest, x)
		}
	}
	r.list = rest
	return out
}

// stop ends the checking: what is not known to have arrived did not. It returns
// once the ledger knows.
func (r *receipts) stop() {
	r.check(true, 0)
	r.mu.Lock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.reports.Wait()
}
