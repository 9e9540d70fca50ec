package justonce

import "time"

// A State is where an operation stands. Three are open (pending, running,
// unknown), one waits for a person (review), two are ends.
type State string

const (
	Pending   State = "pending"   // accepted; no effect yet
	Running   State = "running"   // an attempt holds the lease, or the provider works on it
	Unknown   State = "unknown"   // an attempt ended without proof
	Review    State = "review"    // a person must decide
	Succeeded State = "succeeded" // the effect happened; its result is recorded
	Failed    State = "failed"    // proven: no effect
)

// States lists every state in the order of an operation's life.
var states = [...]State{Pending, Running, Unknown, Review, Succeeded, Failed}

// States returns every state in the order of an operation's life.
func States() []State { return append([]State(nil), states[:]...) }

// Ended reports whether s is final for callers: succeeded or failed.
func (s State) Ended() bool { return s == Succeeded || s == Failed }

// Open reports whether justonce itself will still move the operation on.
func (s State) Open() bool { return s == Pending || s == Running || s == Unknown }

// Valid reports whether s is one of the six states.
func (s State) Valid() bool {
	for _, v := range states {
		if s == v {
			return true
		}
	}
	return false
}

// A Reason says why an operation failed.
type Reason string

const (
	ReasonRejected  Reason = "rejected"  // the provider did not and will not
	ReasonExhausted Reason = "exhausted" // never executed, attempts used up: the dead letters
	ReasonCancelled Reason = "cancelled" // stopped before any effect, by a person or the caller
)

// A Capability is what a provider offers for finding out about an outcome
// that got lost. The four levels are ordered from best to none.
type Capability string

const (
	ByKey       Capability = "key"       // 1: honours an idempotency key; the same key again is the query
	ByReference Capability = "reference" // 2: unique business reference that can be fetched
	ByList      Capability = "list"      // 3: only recent lists, matched by fields
	ByNothing   Capability = "none"      // 4: nothing can be known
)

// Level returns 1 to 4; an empty or unknown capability is level 4.
func (c Capability) Level() int {
	switch c {
	case ByKey:
		return 1
	case ByReference:
		return 2
	case ByList:
		return 3
	}
	return 4
}

// Valid reports whether c is one of the four capabilities.
func (c Capability) Valid() bool { return c == ByNothing || c.Level() < 4 }

// A Status is the part of an operation that [Transition] reads and writes.
// Times are the ledger's clock ([Store.Now]).
type Status struct {
	State  State
	Reason Reason // set when failed

	Fence    int64 // grows with each claim; only its holder's report moves the state
	Attempts int   // sends begun, since arrival or the last redrive
	Lookups  int   // lookups begun since the last send
	Unknowns int   // unknown outcomes in a row

	// Doubt: an earlier send under this wire key may have had its effect.
	// What is learnt of a later send alone then proves nothing.
	Doubt bool
	// Accepted: the provider took a long-running job under Reference; a
	// running operation is polled instead of leased.
	Accepted bool
	// Incident: what was reported contradicts what was recorded. Set only in
	// review.
	Incident bool

	LeaseUntil time.Time // zero: nobody holds it
	Due        time.Time // when it next needs a worker; zero: never by itself
	FirstSent  time.Time // first send that may have had its effect; starts the window
	// UnknownAt is when the last send was given up, and starts the settle time.
	// It may lie ahead: the last moment until which a lost process may be at it.
	UnknownAt time.Time

	Reference string // the provider's name for the effect
	// Digest of the recorded result; tells a contradiction where there is no
	// reference. That of a refusal's answer where the provider rejected.
	Digest string
}

// Leased reports whether somebody holds the right to act at now.
func (s *Status) Leased(now time.Time) bool { return now.Before(s.LeaseUntil) }

// late reports whether a report under fence comes from somebody who no longer
// holds the operation. A holder whose lease ran out but whom nobody replaced is
// not late.
func (s *Status) late(fence int64) bool { return fence != s.Fence || s.LeaseUntil.IsZero() }

// IsDue reports whether a worker may claim the operation at now.
func (s *Status) IsDue(now time.Time) bool {
	return s.State.Open() && !s.Due.IsZero() && !s.Due.After(now) && !s.Leased(now)
}

// A Policy is what the table needs to know of a tool. The zero value of a
// field is replaced by its default in [Policy.WithDefaults].
type Policy struct {
	Capability Capability // defaults to none
	// Fallback is the capability left when a key's window has passed.
	// Defaults to none.
	Fallback Capability
	// CanLookup is set when the tool's connector implements [Finder].
	CanLookup bool
	// RetryAbsent lets a level 3 tool be sent once more when the list shows
	// no match after settle. Level 2 always may.
	RetryAbsent bool

	Window time.Duration // how long the provider remembers a key; defaults to 24h
	// Margin is subtracted from Window: a send begun before safe_until may land
	// as late as Settle after the longer of Lease and Timeout. Defaults to that,
	// with at least 1m for Settle, but at most half of Window.
	Margin time.Duration
	Settle time.Duration // before "absent" counts; defaults to 10s; negative: none

	Timeout time.Duration // of one attempt; defaults to 30s
	// Lease is how long an attempt or lookup may go unheard of before another
	// process takes over. One that is not longer than Timeout is renewed while
	// this process is at work, every third of it, so that even an attempt of
	// hours is missed soon after its process died. What that process had sent may
	// still have its effect until Timeout: only then the settle time starts, so
	// that a found effect counts at once, and absence later. At least 1s where it
	// is renewed. Defaults to Timeout + 15s, which is never renewed.
	Lease time.Duration

	MaxAttempts int // sends; defaults to 8
	MaxUnknowns int // in a row; defaults to 3
	MaxLookups  int // since the last send or the last progress; defaults to 30

	BackoffBase time.Duration // defaults to 500ms
	BackoffCap  time.Duration // defaults to 1m
	Poll        time.Duration // of a long-running job; defaults to 2s
}

// WithDefaults returns p with every zero field set to its documented default.
func (p Policy) WithDefaults() Policy {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	if p.Capability == "" {
		p.Capability = ByNothing
	}
	if p.Fallback == "" {
		p.Fallback = ByNothing
	}
	def(&p.Window, 24*time.Hour)
	def(&p.Timeout, 30*time.Second)
	def(&p.Lease, p.Timeout+15*time.Second)
	def(&p.Settle, 10*time.Second)
	def(&p.Margin, min(max(p.Lease, p.Timeout)+max(time.Minute, p.Settle), p.Window/2))
	num(&p.MaxAttempts, 8)
	num(&p.MaxUnknowns, 3)
	num(&p.MaxLookups, 30)
	def(&p.BackoffBase, 500*time.Millisecond)
	def(&p.BackoffCap, time.Minute)
	def(&p.Poll, 2*time.Second)
	return p
}

// renews reports whether leases are renewed while an attempt or lookup runs.
func (p *Policy) renews() bool { return p.Lease <= p.Timeout }

// SafeUntil returns the time after which the wire key must not be re-sent:
// first send + window - margin. Zero when nothing was sent.
func (p *Policy) SafeUntil(s *Status) time.Time {
	if s.FirstSent.IsZero() {
		return time.Time{}
	}
	return s.FirstSent.Add(p.Window - p.Margin)
}

// means returns what can still be asked of the provider at now.
func (p *Policy) means(s *Status, now time.Time) Capability {
	c := p.Capability
	if c == ByKey && !now.Before(p.SafeUntil(s)) {
		c = p.Fallback
	}
	if c != ByKey && !p.CanLookup {
		c = ByNothing
	}
	return c
}

// Backoff returns the wait before try n+1 after n tries: full jitter, that is
// jitter (0 to 1) of the exponentially growing and capped interval, on top of
// the provider's Retry-After.
func (p *Policy) Backoff(n int, jitter float64, retryAfter time.Duration) time.Duration {
	d := p.BackoffCap
	if shift := max(n-1, 0); shift < 63 && p.BackoffBase <= p.BackoffCap>>shift {
		d = p.BackoffBase << shift
	}
	return retryAfter + time.Duration(jitter*float64(d))
}
