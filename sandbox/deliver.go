package sandbox

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// strikeBefore answers, or does not, in place of a request that has no effect.
func strikeBefore(w http.ResponseWriter, f *Fault) {
	rep := internalError()
	switch f.Kind {
	case CutBefore:
		abort(w, f)
		return
	case Error503:
		rep = errorf(http.StatusServiceUnavailable, "api_error", "service_unavailable", "The service is unavailable; try again later.").reply()
		rep.retryAfter = seconds(f.Delay)
	case RateLimit:
		rep = errorf(http.StatusTooManyRequests, "rate_limit_error", "rate_limited", "Too many requests; try again later.").reply()
		rep.retryAfter = seconds(f.Delay)
	}
	rep.send(w)
}

// seconds rounds up, as Retry-After must not be too early.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// deliver sends an answer, unless faults have it otherwise.
func (p *Provider) deliver(w http.ResponseWriter, r *http.Request, rep reply, hit strikes) {
	if hit.delay != nil {
		select {
		case <-p.opt.After(hit.delay.Delay):
		case <-r.Context().Done():
		case <-p.closed:
			abort(w, nil)
			return
		}
	}
	switch {
	case hit.cut == nil:
		rep.send(w)
	case hit.cut.Kind == LostReply:
		abort(w, hit.cut)
	default:
		cutMid(w, rep, hit.cut)
	}
}

// abort closes the connection without an answer, with a TCP reset if the fault says so.
func abort(w http.ResponseWriter, f *Fault) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // not HTTP/1.1 on a socket of ours: net/http aborts the stream
	}
	hangUp(conn, f)
}

func hangUp(conn net.Conn, f *Fault) {
	if tcp, ok := conn.(*net.TCPConn); ok && f != nil && f.Reset {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// cutMid sends the head and the first half of the body, then closes the connection.
func cutMid(w http.ResponseWriter, rep reply, f *Fault) {
	half := rep.body[:len(rep.body)/2]
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		rep.header(w.Header())
		w.WriteHeader(rep.status)
		w.Write(half)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	h := http.Header{}
	rep.header(h)
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\nDate: %s\r\n", rep.status, http.StatusText(rep.status), time.Now().UTC().Format(http.TimeFormat))
	h.Write(&head)
	fmt.Fprintf(conn, "%s\r\n%s", head.String(), half)
	hangUp(conn, f)
}
