package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Kind says what goes wrong.
type Kind string

// The kinds of faults. Those without effect come before anything else, the idempotency key included;
// those with effect happen only to requests that have one, or replay one, and to reads.
const (
	LostReply      Kind = "lost_reply"       // effect done; connection closed without a byte of answer
	CutBefore      Kind = "cut_before"       // no effect; connection closed
	CutMid         Kind = "cut_mid"          // effect done; connection closed in the middle of the answer's body
	Error500After  Kind = "error_500_after"  // effect done; 500, which a payment's key then replays
	Error500Before Kind = "error_500_before" // no effect; 500, the same body as the other one
	Error503       Kind = "error_503"        // no effect; 503 with Retry-After
	RateLimit      Kind = "rate_limit"       // no effect; 429 with Retry-After
	Slow           Kind = "slow"             // a delay before the effect, while the key is in use
	SlowReply      Kind = "slow_reply"       // effect done; a delay before the answer
	ListLag        Kind = "list_lag"         // lists and look-ups by reference hide what is younger than the delay
)

// phase is the moment of a request at which a kind strikes. One request meets at most one fault of
// each phase.
type phase int

const (
	phaseBefore phase = iota + 1
	phaseSlow
	phaseFail
	phaseDelay
	phaseCut
	phaseList
)

var phases = map[Kind]phase{
	CutBefore: phaseBefore, Error500Before: phaseBefore, Error503: phaseBefore, RateLimit: phaseBefore,
	Slow: phaseSlow, Error500After: phaseFail, SlowReply: phaseDelay,
	LostReply: phaseCut, CutMid: phaseCut, ListLag: phaseList,
}

// What a fault may strike, see Fault.On.
const (
	OnWrite = "write"
	OnRead  = "read"
	OnAny   = "any"
)

// Fault is armed with Inject and strikes the requests that match it. In JSON the delay is a text
// such as "1.5s", and unknown members are refused.
type Fault struct {
	Service     string            // one service; default any
	Kind        Kind              // required
	On          string            // OnWrite, OnRead or OnAny; default OnWrite, for ListLag OnRead
	Times       int               // how often it strikes until it is spent; default 1, -1 for ever
	Probability float64           // of striking a request that matches, 0 < p <= 1; default 1
	Delay       time.Duration     // Slow, SlowReply, ListLag: required. Error503, RateLimit: Retry-After, default 1 s
	Match       map[string]string // members that the body (of a read: the query, or "id") must have, all of them
	Reset       bool              // cuts send a TCP reset instead of an orderly close
}

// Armed is a fault that has not struck for the last time.
type Armed struct {
	Fault Fault `json:"fault"`
	Left  int   `json:"left"` // -1: for ever
	Fired int   `json:"fired"`
}

type faultJSON struct {
	Service     string         `json:"service,omitempty"`
	Kind        Kind           `json:"kind"`
	On          string         `json:"on,omitempty"`
	Times       *int           `json:"times,omitempty"`
	Probability *float64       `json:"probability,omitempty"`
	Delay       string         `json:"delay,omitempty"`
	Match       map[string]any `json:"match,omitempty"`
	Reset       bool           `json:"reset,omitempty"`
}

// MarshalJSON writes the form that POST /faults takes.
func (f Fault) MarshalJSON() ([]byte, error) {
	out := faultJSON{Service: f.Service, Kind: f.Kind, On: f.On, Reset: f.Reset}
	if f.Times != 0 {
		out.Times = &f.Times
	}
	if f.Probability != 0 {
		out.Probability = &f.Probability
	}
	if f.Delay != 0 {
		out.Delay = f.Delay.String()
	}
	for name, text := range f.Match {
		if out.Match == nil {
			out.Match = map[string]any{}
		}
		out.Match[name] = text
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the form that POST /faults takes. Values of match may be of any JSON type.
func (f *Fault) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	var in faultJSON
	if err := dec.Decode(&in); err != nil {
		return err
	}
	*f = Fault{Service: in.Service, Kind: in.Kind, On: in.On, Reset: in.Reset}
	if in.Times != nil {
		if f.Times = *in.Times; f.Times == 0 {
			return fmt.Errorf("times is 0: the fault would never strike")
		}
	}
	if in.Probability != nil {
		if f.Probability = *in.Probability; f.Probability == 0 {
			return fmt.Errorf("probability is 0: the fault would never strike")
		}
	}
	if in.Delay != "" {
		d, err := time.ParseDuration(in.Delay)
		if err != nil {
			return fmt.Errorf("delay %q is not a duration such as 1.5s", in.Delay)
		}
		f.Delay = d
	}
	for name, v := range in.Match {
		if f.Match == nil {
			f.Match = map[string]string{}
		}
		f.Match[name] = textOf(v)
	}
	return nil
}

// normal fills in the defaults, or says what is wrong.
func (f Fault) normal() (Fault, *Error) {
	bad := func(format string, args ...any) (Fault, *Error) {
		return Fault{}, errorf(http.StatusBadRequest, "invalid_request_error", "fault_invalid", format, args...)
	}
	if e := checkService(f.Service); e != nil {
		return Fault{}, e
	}
	at, ok := phases[f.Kind]
	if !ok {
		return bad("There is no kind of fault %q; there are lost_reply, cut_before, cut_mid, error_500_after, error_500_before, error_503, rate_limit, slow, slow_reply and list_lag.", f.Kind)
	}
	if f.On == "" {
		if f.On = OnWrite; at == phaseList {
			f.On = OnRead
		}
	}
	if f.On != OnWrite && f.On != OnRead && f.On != OnAny {
		return bad("on is %q; it must be write, read or any.", f.On)
	}
	if f.Kind == ListLag && f.On == OnWrite {
		return bad("list_lag strikes reads only.")
	}
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Times < -1 {
		return bad("times is %d; it must be -1 (for ever) or at least 1.", f.Times)
	}
	if f.Probability == 0 {
		f.Probability = 1
	}
	if !(f.Probability > 0 && f.Probability <= 1) {
		return bad("probability is %v; it must be above 0 and at most 1.", f.Probability)
	}
	if f.Delay < 0 || f.Delay == 0 && (f.Kind == Slow || f.Kind == SlowReply || f.Kind == ListLag) {
		return bad("%s needs a delay above 0, such as \"2s\".", f.Kind)
	}
	return f, nil
}

// headerFaults reads the Sandbox-Fault header: one or more faults for this request alone, separated
// by commas, each a kind with options: "lost_reply; reset" or "slow; delay=2s, error_500_after".
func headerFaults(h http.Header) ([]Fault, *Error) {
	var all []Fault
	for _, value := range h.Values("Sandbox-Fault") {
		for item := range strings.SplitSeq(value, ",") {
			parts := strings.Split(item, ";")
			f := Fault{Kind: Kind(strings.TrimSpace(parts[0])), On: OnAny}
			for _, part := range parts[1:] {
				name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
				d, err := time.ParseDuration(text)
				switch {
				case name == "reset" && text == "":
					f.Reset = true
				case name == "delay" && err == nil:
					f.Delay = d
				default:
					return nil, errorf(http.StatusBadRequest, "invalid_request_error", "fault_invalid",
						"Sandbox-Fault: %q is neither reset nor a delay such as delay=2s.", strings.TrimSpace(part))
				}
			}
			f, bad := f.normal()
			if bad != nil {
				return nil, bad
			}
			all = append(all, f)
		}
	}
	return all, nil
}

func readFault(body io.Reader) (Fault, *Error) {
	dec := json.NewDecoder(body)
	var f Fault
	err := dec.Decode(&f)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return f, nil
		}
		err = fmt.Errorf("something follows the fault")
	}
	return Fault{}, errorf(http.StatusBadRequest, "invalid_request_error", "fault_invalid", "The fault cannot be read: %v.", err)
}
