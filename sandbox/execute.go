package sandbox

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// call is one request to a service on its way through the provider.
type call struct {
	service *service
	write   bool
	r       *http.Request
	fields  map[string]any // of the body, clipped; of a read: the query and "id"
	intent  string         // fields as JSON
	key     string
	print   fingerprint // of the whole body, not clipped
	since   time.Time   // when its execution began
	own     []Fault     // of its Sandbox-Fault header
}

// strikes are the faults that meet an answer.
type strikes struct{ fail, delay, cut *Fault }

// clipAbove is the size above which a member of a body is kept as its beginning and its hash.
const clipAbove = 4096

// write is the way of every POST to a service: refusals first, then faults without effect, then the
// execution or its replay.
func (p *Provider) write(w http.ResponseWriter, r *http.Request, s *service) {
	c, bad := newWrite(w, r, s)
	if bad != nil {
		sendError(w, bad)
		return
	}
	if f := p.faults.take(c, phaseBefore); f != nil {
		strikeBefore(w, f)
		return
	}
	rep, hit, err := p.execute(c)
	if err != nil {
		abort(w, nil)
		return
	}
	p.deliver(w, r, rep, hit)
}

func newWrite(w http.ResponseWriter, r *http.Request, s *service) (*call, *Error) {
	c := &call{service: s, write: true, r: r}
	var bad *Error
	if c.own, bad = headerFaults(r.Header); bad != nil {
		return nil, bad
	}
	if s.keyed {
		keys := r.Header.Values("Idempotency-Key")
		if len(keys) > 1 || len(keys) == 1 && len(keys[0]) > maxReference {
			return nil, errorf(http.StatusBadRequest, "idempotency_error", "idempotency_key_invalid",
				"Idempotency-Key must be one value of at most %d bytes.", maxReference)
		}
		c.key = r.Header.Get("Idempotency-Key")
	}
	body, bad := readBody(w, r)
	if bad != nil {
		return nil, bad
	}
	if c.fields, bad = decodeObject(body); bad != nil {
		return nil, bad
	}
	if bad = s.check(c.fields); bad != nil {
		return nil, bad
	}
	canonical := encode(c.fields)
	sum := sha256.Sum256(canonical)
	copy(c.print[:], sum[:])
	if len(canonical) > clipAbove {
		for name, v := range c.fields {
			if data := encode(v); len(data) > clipAbove {
				c.fields[name] = fmt.Sprintf("%.64q… (%d bytes of JSON, sha256 %x)", textOf(v), len(data), sha256.Sum256(data))
			}
		}
		canonical = encode(c.fields)
	}
	c.intent = string(canonical)
	return c, nil
}

// execute has the effect, or answers why it has none. An error means that the provider was closed
// during a delay: there is no effect and nothing to say.
func (p *Provider) execute(c *call) (reply, strikes, error) {
	c.since = p.opt.Now()
	if c.key != "" {
		if rep, hit, done := p.claim(c); done {
			return rep, hit, nil
		}
		defer p.release(c.key)
	}
	if f := p.faults.take(c, phaseSlow); f != nil {
		select { // a client that leaves does not stop a provider
		case <-p.opt.After(f.Delay):
		case <-p.closed:
			return reply{}, strikes{}, http.ErrServerClosed
		}
	}
	rep, hit := p.commit(c)
	return rep, hit, nil
}

// claim answers from what the key already stands for, or marks it as being executed.
func (p *Provider) claim(c *call) (rep reply, hit strikes, done bool) {
	t := p.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, busy := t.running[c.key]; busy {
		return errorf(http.StatusConflict, "idempotency_error", "idempotency_key_in_use",
			"Another request with this Idempotency-Key is being executed.").reply(), hit, true
	}
	known, ok := t.keys[c.key]
	if !ok || c.since.Sub(time.Unix(0, known.at)) >= p.opt.Window {
		t.running[c.key] = struct{}{}
		return rep, hit, false
	}
	if known.print != c.print {
		return errorf(http.StatusBadRequest, "idempotency_error", "idempotency_key_reused",
			"Keys for idempotent requests can only be used with the same parameters they were first used with.").reply(), hit, true
	}
	rep = reply{status: int(known.status), body: []byte(known.body), replayed: true}
	if known.effect >= 0 {
		rep.body = storedBody(int(known.status), t.viewLocked(), int(known.effect))
	}
	hit.delay, hit.cut = p.faults.take(c, phaseDelay), p.faults.take(c, phaseCut)
	return rep, hit, true
}

func (p *Provider) release(key string) {
	p.tally.mu.Lock()
	defer p.tally.mu.Unlock()
	delete(p.tally.running, key)
}

// commit is the one place where effects happen.
func (p *Provider) commit(c *call) (rep reply, hit strikes) {
	t, s := p.tally, c.service
	ref, _ := c.fields[s.reference].(string)
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, taken := t.latest[s.index][ref]; taken && s.unique {
		e := errorf(http.StatusConflict, "invalid_request_error", "duplicate_external_id", "%s %q already exists.", s.reference, ref)
		e.ExistingID = t.viewLocked().id(int(i))
		return e.reply(), hit
	}
	now := p.opt.Now().UTC()
	known := answer{print: c.print, at: c.since.UnixNano(), effect: -1}
	if no := p.decline(s, c.fields); no != nil {
		rep = no.reply()
		if c.key != "" {
			known.status, known.body = uint16(rep.status), string(rep.body)
			if err := t.append(line{Event: eventAnswer, Time: now, Answer: known.line(c.key)}); err != nil {
				return err.(*Error).reply(), hit
			}
			t.keys[c.key] = known
		}
		hit.delay, hit.cut = p.faults.take(c, phaseDelay), p.faults.take(c, phaseCut)
		return rep, hit
	}

	hit = strikes{p.faults.take(c, phaseFail), p.faults.take(c, phaseDelay), p.faults.take(c, phaseCut)}
	status := s.status
	if hit.fail != nil {
		status = http.StatusInternalServerError
	}
	e := entry{at: now.UnixNano(), intent: c.intent, key: c.key, ref: ref, service: s.index, fault: hit.String()}
	if hit.cut == nil || hit.cut.Kind != LostReply {
		e.sent = uint16(status)
	}
	next := int32(len(t.entries))
	l := line{Event: eventEffect, Time: now}
	if c.key != "" {
		known.status, known.effect = uint16(status), next
		l.Answer = known.line(c.key)
	}
	if t.journal != nil || t.shut {
		effect := view{t.epoch, t.base + int64(next), []entry{e}}.effect(0)
		l.Effect = &effect
		if err := t.append(l); err != nil {
			return err.(*Error).reply(), strikes{}
		}
	}
	t.add(e, c.fields)
	if c.key != "" {
		t.keys[c.key] = known
	}
	return reply{status: status, body: storedBody(status, t.viewLocked(), int(next))}, hit
}

func (h strikes) String() string {
	var kinds []string
	for _, f := range []*Fault{h.fail, h.delay, h.cut} {
		if f != nil {
			kinds = append(kinds, string(f.Kind))
		}
	}
	return strings.Join(kinds, ",")
}

// storedBody is the body that belongs to an effect: the same bytes each time.
func storedBody(status int, v view, i int) []byte {
	if status == http.StatusInternalServerError {
		return internalError().body
	}
	return v.render(i)
}

func internalError() reply {
	return errorf(http.StatusInternalServerError, "api_error", "internal_error", "An unexpected error occurred.").reply()
}
