package redis_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/redis"
)

// Scripts count nanoseconds in numbers that cannot hold them.
func TestScriptTime(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		sec, usec := rng.Int64N(1<<32), rng.Int64N(1_000_000)
		if i%3 == 0 {
			usec = 999_999
		}
		if got, want := s.ScriptTime(t, sec, usec), time.Unix(sec, usec*1000); !got.Equal(want) {
			t.Errorf("%d s %d µs: %v, want %v", sec, usec, got, want)
		}
	}
}

// Now and what the scripts decide by are the server's time.
func TestNowIsTheServers(t *testing.T) {
	t.Parallel()
	srv, s := server(t), openNew(t, redis.Options{})
	read := func() time.Time {
		sec, usec, _ := strings.Cut(do(t, srv, "TIME"), "\n")
		a, err1 := strconv.ParseInt(sec, 10, 64)
		b, err2 := strconv.ParseInt(usec, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return time.Unix(a, b*1000)
	}
	for range 20 {
		before := read()
		now, script := s.Now(), s.ServerTime(t)
		after := read()
		if script.Before(before) || script.After(after) {
			t.Errorf("a script says %v, the server %v to %v", script, before, after)
		}
		const slack = 100 * time.Millisecond // for a busy machine
		if now.Before(before.Add(-slack)) || now.After(after.Add(slack)) {
			t.Errorf("Now is %v, the server's clock %v to %v", now, before, after)
		}
	}
}
