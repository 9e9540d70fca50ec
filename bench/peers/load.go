package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A load is what one process shall do.
type load struct {
	Callers int
	For     time.Duration // callers stop after it; a call that has begun ends
	Seed    string        // of the keys of first calls
	Keys    []string      // that have ended: replay them
	Key     string        // all call it once at the same moment
	At      time.Time     // that moment
}

// A tally is what came of it.
type tally struct {
	Calls   int
	Elapsed time.Duration
	Ended   time.Time // the last call
	Times   histogram
	Effects int      // run by this process
	Keys    []string // some of the first calls, which have ended
	CPU     time.Duration
	Errors  int // calls that failed or had another result
	Error   string
}

const (
	callTimeout = 30 * time.Second
	maxErrors   = 100 // give up after as many
	keptKeys    = 2000
)

// callKey is like a derived key: its order is random.
func callKey(seed string, n int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", seed, n))
	return hex.EncodeToString(sum[:16])
}

// run makes the calls of l.
func run(ctx context.Context, p *place, c caller, l load) *tally {
	t := &tally{}
	effects, cpu := p.effects.Load(), ownCPU()
	switch {
	case l.Key != "":
		t.burst(ctx, c, l)
	case len(l.Keys) > 0:
		call := c.Call
		if r, ok := c.(replayer); ok {
			call = r.Replay
		}
		t.loop(ctx, l, call, func(n int64) string { return l.Keys[n%int64(len(l.Keys))] })
	default:
		made := t.loop(ctx, l, c.Call, func(n int64) string { return callKey(l.Seed, n) })
		for n := max(0, made-keptKeys); n < made; n++ {
			t.Keys = append(t.Keys, callKey(l.Seed, n))
		}
	}
	t.CPU, t.Effects = ownCPU()-cpu, int(p.effects.Load()-effects)
	return t
}

type callFunc func(ctx context.Context, key string) (json.RawMessage, error)

// loop lets each caller make one call after the other and returns how many
// were made. It numbers them from 0.
func (t *tally) loop(ctx context.Context, l load, call callFunc, key func(n int64) string) int64 {
	var next atomic.Int64
	var failed atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	tallies := make([]tally, l.Callers)
	for i := range tallies {
		wg.Go(func() {
			for now := start; now.Sub(start) < l.For && failed.Load() < maxErrors; {
				k := key(next.Add(1) - 1)
				err := check(ctx, call, k)
				end := time.Now()
				tallies[i].count(end.Sub(now), err)
				if now = end; err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Elapsed = time.Since(start)
	for i := range tallies {
		t.merge(&tallies[i])
	}
	return next.Load()
}

// burst lets all callers call one key at once; each time is from that moment.
func (t *tally) burst(ctx context.Context, c caller, l load) {
	var wg sync.WaitGroup
	release := make(chan struct{})
	tallies := make([]tally, l.Callers)
	for i := range tallies {
		wg.Go(func() {
			<-release
			err := check(ctx, c.Call, l.Key)
			tallies[i].count(time.Since(l.At), err)
		})
	}
	time.Sleep(time.Until(l.At))
	close(release)
	wg.Wait()
	t.Elapsed, t.Ended = time.Since(l.At), time.Now()
	for i := range tallies {
		t.merge(&tallies[i])
	}
}

// check makes one call and looks at its result.
func check(ctx context.Context, call callFunc, key string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := call(ctx, key)
	if err == nil && !bytes.Equal(got, resultOf(key)) && !sameJSON(got, resultOf(key)) {
		return fmt.Errorf("call %s: the result is %.200q", key, got)
	}
	return err
}

// sameJSON reports whether a and b are the same but for the order of members:
// some peers decode what they record.
func sameJSON(a, b []byte) bool {
	var x, y struct {
		ID, Status string
		Amount     int
	}
	return errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)) == nil && x == y
}

func (t *tally) count(d time.Duration, err error) {
	if err != nil {
		t.Errors++
		t.Error = err.Error()
		return
	}
	t.Calls++
	t.Times.add(d)
}

// merge adds what another caller or process has done at the same time.
func (t *tally) merge(o *tally) {
	t.Calls += o.Calls
	t.Elapsed = max(t.Elapsed, o.Elapsed)
	if o.Ended.After(t.Ended) {
		t.Ended = o.Ended
	}
	t.Times.merge(&o.Times)
	t.Effects += o.Effects
	t.Keys = slices.Concat(t.Keys, o.Keys)
	t.CPU += o.CPU
	t.Errors += o.Errors
	if t.Error == "" {
		t.Error = o.Error
	}
}
