package httpask

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter bounds what a provider may ask for.
const MaxRetryAfter = time.Hour

// RetryAfter parses a Retry-After header: seconds or an HTTP date, as a wait
// from now. What is malformed or past is zero; what is longer than
// MaxRetryAfter is MaxRetryAfter.
func RetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		n, err := strconv.ParseInt(header, 10, 64)
		if err != nil || n > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return time.Duration(n) * time.Second
	}
	t, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(t.Sub(now), 0), MaxRetryAfter)
}
