package catalog

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxDuration bounds what a duration may say: a hundred years.
const maxDuration = 100 * 365 * 24 * time.Hour

var errDuration = errors.New("it must be a time span such as 30s, 5m, 24h or 7d")

// parseDuration reads Go's durations, and d for days of 24 hours in front:
// 7d, 1d12h. Whole numbers of nothing but 0 have no unit and are refused.
func parseDuration(n *node) (time.Duration, error) {
	if n.kind == kindNumber && n.text == "0" {
		return 0, nil
	}
	if n.kind != kindText {
		return 0, errDuration
	}
	return ParseDuration(n.text)
}

// ParseDuration reads a time span as catalogs write it: as Go does, with d for
// days of 24 hours in front, as in 7d or 1d12h. It is not negative, and a
// hundred years at most.
func ParseDuration(s string) (time.Duration, error) {
	var days time.Duration
	rest := s
	if i := strings.IndexByte(s, 'd'); i > 0 {
		f, err := strconv.ParseUint(s[:i], 10, 32)
		if err != nil || f > 100*365 {
			return 0, errDuration
		}
		days, rest = time.Duration(f)*24*time.Hour, s[i+1:]
	}
	if rest == "" && days > 0 {
		return days, nil
	}
	t, err := time.ParseDuration(rest)
	if err != nil || t < 0 || t > maxDuration || strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-") {
		return 0, errDuration
	}
	if days += t; days > maxDuration {
		return 0, errDuration
	}
	return days, nil
}

// spell writes a duration as catalogs do.
func spell(t time.Duration) string {
	t = t.Round(time.Second)
	var b strings.Builder
	if d := t / (24 * time.Hour); d > 0 {
		b.WriteString(strconv.Itoa(int(d)) + "d")
		t %= 24 * time.Hour
	}
	if t > 0 || b.Len() == 0 {
		s := t.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		b.WriteString(s)
	}
	return b.String()
}

var units = map[string]int64{"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// parseSize reads a whole number, and if sized also text such as 4MiB.
func parseSize(n *node, sized bool) (int64, error) {
	if n.kind == kindNumber || n.kind == kindText && sized && strings.HasSuffix(n.text, "B") {
		return ParseSize(n.text)
	}
	return 0, errSize
}

var errSize = errors.New("it must be a number of bytes, or a size such as 4MiB")

// ParseSize reads a size as catalogs write it: a whole number of bytes, or one
// with a unit, B, KB, MB, GB, KiB, MiB or GiB, as in 4MiB. It may be negative.
func ParseSize(s string) (int64, error) {
	digits, factor := strings.TrimRight(s, "BKMGi"), int64(1)
	if unit := s[len(digits):]; unit != "" {
		if factor = units[unit]; factor == 0 {
			return 0, errSize
		}
		digits = strings.TrimSpace(digits)
	}
	i, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || i > math.MaxInt64/factor || i < -math.MaxInt64/factor {
		return 0, errSize
	}
	return i * factor, nil
}
