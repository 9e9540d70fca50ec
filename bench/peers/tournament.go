package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// What is measured.
const (
	first  = "first"  // calls with new keys
	replay = "replay" // calls with keys whose call has ended
	burst  = "burst"  // equal calls of a new key at the same moment
)

// A sample is what one contestant did in one round.
type sample struct {
	Contestant string
	Round      int
	Workload   string
	Callers    int
	Calls      int     // or bursts
	Rate       float64 // a second
	P50, P99   time.Duration
	ClientCPU  time.Duration // a call
	ServerCPU  time.Duration // a call; 0 where there is no server
	Effects    int           // of a burst: the most that one had
	Errors     int           // calls that failed or had another result
	Error      string        // one of theirs
}

// A footprint is what a contestant's processes hold after its calls.
type footprint struct {
	Contestant           string
	Client               int64 // bytes, PSS
	ServerPSS, ServerRSS int64
}

// A tournament lets contestants make the same calls, one after the other.
type tournament struct {
	Contestants []contestant `json:"-"`
	Callers     []int
	Time        time.Duration
	Rounds      int
	Duplicates  int
	Samples     []sample
	Footprints  []footprint
	Skipped     map[string]string // why a contestant is missing
	Versions    []string          // of servers

	progress io.Writer
	servers  *servers
}

// play lets everybody play all rounds. The order changes from round to round.
func (t *tournament) play(ctx context.Context) (err error) {
	if t.servers, err = newServers(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.servers.close()) }()
	t.Skipped = map[string]string{}
	start := time.Now()
	for round := range t.Rounds {
		for i := range t.Contestants {
			c := &t.Contestants[(i+round*len(t.Contestants)/t.Rounds)%len(t.Contestants)]
			if t.Skipped[c.name] != "" {
				continue
			}
			fmt.Fprintf(t.progress, "%5.0fs round %d of %d: %s\n", time.Since(start).Seconds(), round+1, t.Rounds, c.name)
			if err := t.turn(ctx, c, round); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				t.Skipped[c.name] = err.Error()
				fmt.Fprintf(t.progress, "       skipped: %v\n", err)
			}
		}
	}
	return nil
}

// players returns the contestants that have samples and did not fail.
func (t *tournament) players() (some []contestant) {
	for _, c := range t.Contestants {
		if t.Skipped[c.name] == "" && slices.ContainsFunc(t.Samples, func(s sample) bool { return s.Contestant == c.name }) {
			some = append(some, c)
		}
	}
	return some
}

// A turn is a contestant's in one round.
type turn struct {
	t         *tournament
	c         *contestant
	round     int
	place     *place
	servers   []*server
	pids      []int
	processes []*process
	keys      []string // that have ended
}

func (t *tournament) turn(ctx context.Context, c *contestant, round int) (err error) {
	turn := &turn{t: t, c: c, round: round, place: &place{}}
	if turn.place.Dir, err = os.MkdirTemp(t.servers.dir, "contestant-"); err != nil {
		return err
	}
	defer os.RemoveAll(turn.place.Dir)
	for _, name := range c.servers {
		s, release, err := t.servers.get(ctx, name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		if err := s.offer(turn.place); err != nil {
			return err
		}
		if s.clear != nil {
			defer func() { err = errors.Join(err, s.clear(turn.place)) }()
		}
		turn.servers, turn.pids = append(turn.servers, s), append(turn.pids, s.pids...)
		if !slices.Contains(t.Versions, s.version) {
			t.Versions = append(t.Versions, s.version)
		}
	}
	for range max(c.processes, 1) {
		p, err := spawn(ctx, c.name, turn.place)
		if err != nil {
			return err
		}
		defer p.stop()
		turn.processes = append(turn.processes, p)
	}
	if err := turn.calls(); err != nil {
		return err
	}
	turn.weigh()
	return nil
}

// calls makes all calls of a turn.
func (t *turn) calls() error {
	if t.c.replays {
		if err := t.fill(); err != nil {
			return err
		}
	} else {
		for _, callers := range t.t.Callers {
			if err := t.closedLoop(first, callers); err != nil {
				return err
			}
		}
	}
	for _, callers := range t.t.Callers {
		if err := t.closedLoop(replay, callers); err != nil {
			return err
		}
	}
	if t.c.replays {
		return nil
	}
	return t.bursts()
}

// fill makes first calls that nobody measures.
func (t *turn) fill() error {
	made, err := t.all(load{Callers: 64, For: t.t.Time / 2, Seed: t.seed("fill")})
	if err == nil {
		t.keep(made.Keys)
	}
	return err
}

func (t *turn) seed(of string) string {
	return fmt.Sprintf("%s/%d/%s", t.c.name, t.round, of)
}

// keep remembers the newest keys for replays, the same number for all.
func (t *turn) keep(keys []string) {
	t.keys = append(t.keys, keys...)
	t.keys = t.keys[max(0, len(t.keys)-keptKeys):]
}

// closedLoop measures what some callers do, after a fifth of the time for
// connections, plans and caches.
func (t *turn) closedLoop(workload string, callers int) error {
	for _, s := range t.servers {
		if s.settle != nil {
			if err := s.settle(t.place); err != nil {
				return err
			}
		}
	}
	l := load{Callers: callers, For: t.t.Time / 5, Seed: t.seed(fmt.Sprint(callers, "/warm"))}
	if workload == replay {
		l.Callers = max(callers, 16) // so that one caller too meets warm caches
		if l.Keys = t.keys; len(l.Keys) == 0 {
			return errors.New("no first call has ended")
		}
	}
	if _, err := t.all(l); err != nil {
		return err
	}
	l.Callers, l.For, l.Seed = callers, t.t.Time, t.seed(fmt.Sprint(callers))
	cpu := cpuOf(t.pids...)
	made, err := t.all(l)
	if err != nil {
		return err
	}
	cpu = cpuOf(t.pids...) - cpu
	t.keep(made.Keys)
	n := max(made.Calls, 1)
	t.note(sample{Workload: workload, Callers: callers, Calls: made.Calls, Rate: float64(made.Calls) / made.Elapsed.Seconds(),
		P50: made.Times.quantile(0.5), P99: made.Times.quantile(0.99), ClientCPU: made.CPU / time.Duration(n), ServerCPU: cpu / time.Duration(n),
		Effects: made.Effects, Errors: made.Errors, Error: made.Error})
	return nil
}

// bursts measures how long it takes until all of many equal calls have the
// result.
func (t *turn) bursts() error {
	const atLeast, atMost = 3, 50
	var times histogram
	s := sample{Workload: burst, Callers: t.t.Duplicates}
	for start := time.Now(); s.Calls < atLeast || s.Calls < atMost && time.Since(start) < t.t.Time; s.Calls++ {
		at := time.Now().Add(10 * time.Millisecond)
		made, err := t.all(load{Callers: t.t.Duplicates, Key: callKey(t.seed("burst"), int64(s.Calls)), At: at})
		if err != nil {
			return err
		}
		times.add(made.Ended.Sub(at))
		s.Effects = max(s.Effects, made.Effects)
		if s.Errors += made.Errors; made.Error != "" {
			s.Error = made.Error
		}
	}
	s.P50, s.P99 = times.quantile(0.5), times.quantile(0.99)
	t.note(s)
	return nil
}

func (t *turn) note(s sample) {
	s.Contestant, s.Round = t.c.name, t.round
	t.t.Samples = append(t.t.Samples, s)
}

// all shares l among the contestant's processes.
func (t *turn) all(l load) (*tally, error) {
	type answer struct {
		*tally
		error
	}
	answers := make(chan answer)
	for i, p := range t.processes {
		part := l
		part.Callers = (l.Callers + len(t.processes) - 1 - i) / len(t.processes)
		part.Seed = fmt.Sprint(l.Seed, "/", i)
		go func() {
			made, err := p.run(part)
			answers <- answer{made, err}
		}()
	}
	sum := &tally{}
	var err error
	for range t.processes {
		a := <-answers
		if err = errors.Join(err, a.error); a.error == nil {
			sum.merge(a.tally)
		}
	}
	return sum, err
}

// weigh notes what the processes hold in the last round.
func (t *turn) weigh() {
	if t.round+1 < t.t.Rounds {
		return
	}
	f := footprint{Contestant: t.c.name}
	for _, p := range t.processes {
		f.Client += usageOf(p.cmd.Process.Pid).PSS
	}
	server := usageOf(t.pids...)
	f.ServerPSS, f.ServerRSS = server.PSS, server.RSS
	t.t.Footprints = append(t.t.Footprints, f)
}
