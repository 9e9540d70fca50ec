package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce"
)

// A patience is how long a call waits for its end.
type patience struct {
	wait    time.Duration
	applied string // for Preference-Applied
}

// prefer reads the Prefer header (RFC 7240): wait=N, bounded by MaxWait, or
// respond-async, which without wait is wait=0. Other preferences, and values
// that are no number, are ignored.
func (s *Server) prefer(h http.Header) patience {
	p := patience{wait: s.o.DefaultWait}
	async := false
	for _, line := range h["Prefer"] {
		for pref := range strings.SplitSeq(line, ",") {
			pref, _, _ = strings.Cut(pref, ";")
			name, value, _ := strings.Cut(pref, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "respond-async":
				async = true
			case "wait":
				n, err := strconv.ParseUint(strings.Trim(value, " \t\""), 10, 31)
				if err == nil && p.applied == "" {
					p.wait = min(time.Duration(n)*time.Second, s.o.MaxWait.Truncate(time.Second))
					p.applied = "wait=" + itoa(int(p.wait/time.Second))
				}
			}
		}
	}
	if async && p.applied == "" {
		p.wait, p.applied = 0, "respond-async"
	}
	return p
}

// parseWait reads the parameter wait: 30, 30s, 1m; bounded by MaxWait.
func (s *Server) parseWait(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		var n int
		n, err = strconv.Atoi(v)
		d = time.Duration(min(n, int(s.o.MaxWait/time.Second)+1)) * time.Second
	}
	if err != nil || d < 0 {
		return 0, &justonce.InvalidError{Field: "wait", Detail: "want seconds, such as 30 or 30s"}
	}
	return min(d, s.o.MaxWait), nil
}

// retryAfter says in how many seconds to look at op again; 0: never.
func retryAfter(op *justonce.Operation) int {
	switch {
	case op.State.Ended() || op.Key == "":
		return 0
	case op.State == justonce.Review: // people take their time
		return 60
	case op.Accepted:
		return 5
	}
	return 1
}

func itoa(n int) string { return strconv.Itoa(n) }
