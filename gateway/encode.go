package gateway

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/justonce-dev/justonce"
)

// buffers are for answers, which are copied when they are written.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}

func release(p *[]byte) {
	const most = 64 << 10 // one large result must not pin its memory for good
	if cap(*p) <= most {
		buffers.Put(p)
	}
}

// An object appends the members of a JSON object. Recorded JSON is appended as
// it is: encoding/json would change its white space and escapes.
type object struct{ b []byte }

func (o *object) name(n string) {
	if c := o.b[len(o.b)-1]; c != '{' && c != '[' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, n...)
	o.b = append(o.b, '"', ':')
}

func (o *object) str(n, v string) {
	o.name(n)
	o.b = appendString(o.b, v)
}

func (o *object) strIf(n, v string) {
	if v != "" {
		o.str(n, v)
	}
}

func (o *object) int(n string, v int64) {
	o.name(n)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *object) bool(n string, v bool) {
	o.name(n)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) boolIf(n string, v bool) {
	if v {
		o.bool(n, v)
	}
}

func (o *object) raw(n string, v []byte) {
	o.name(n)
	o.b = append(o.b, v...)
}

func (o *object) time(n string, t time.Time) {
	o.name(n)
	o.b = append(o.b, '"')
	o.b = t.UTC().AppendFormat(o.b, time.RFC3339Nano)
	o.b = append(o.b, '"')
}

func (o *object) failure(f *justonce.Failure) {
	if f == nil {
		return
	}
	o.name("failure")
	o.b = append(o.b, '{')
	o.str("code", f.Code)
	o.strIf("message", f.Message)
	o.b = append(o.b, '}')
}

// answer appends a wireAnswer.
func (o *object) answer(a *justonce.Answer) {
	o.operation(a, true)
}

// operation appends a wireOperation, or with flags a wireAnswer.
func (o *object) operation(a *justonce.Answer, flags bool) {
	op := a.Operation
	o.b = append(o.b, '{')
	o.strIf("key", op.Key)
	o.str("tool", op.Tool)
	o.str("state", string(op.State))
	o.strIf("reason", string(op.Reason))
	if flags {
		o.bool("replayed", a.Replayed)
		o.bool("joined", a.Joined)
		o.strIf("matched_by", string(a.MatchedBy))
	}
	if op.Result != nil {
		refusal := op.State == justonce.Failed && op.Reason == justonce.ReasonRejected && op.Digest != ""
		if op.State == justonce.Succeeded || op.Incident || refusal {
			o.raw("result", op.Result)
		} else if string(op.Result) != "null" { // which stands for none
			o.raw("progress", op.Result)
		}
	}
	o.failure(op.Failure)
	o.strIf("reference", op.Reference)
	o.strIf("note", op.Note)
	o.boolIf("accepted", op.Accepted)
	o.boolIf("incident", op.Incident)
	o.int("attempts", int64(op.Attempts))
	if op.Lookups > 0 {
		o.int("lookups", int64(op.Lookups))
	}
	if !op.Due.IsZero() {
		o.time("due", op.Due)
	}
	o.strIf("key_source", string(op.KeySource))
	o.strIf("scope", op.Scope)
	o.strIf("run_id", op.RunID)
	o.int("intent_seq", int64(op.IntentSeq))
	o.strIf("identity", op.Identity)
	o.str("fingerprint", op.Fingerprint)
	o.strIf("wire_key", op.WireKey)
	o.strIf("traceparent", op.TraceParent)
	o.time("created_at", op.CreatedAt)
	o.time("updated_at", op.UpdatedAt)
	advice := a.Advice()
	o.name("advice")
	o.b = append(o.b, '{')
	o.str("code", string(advice.Code))
	o.str("text", advice.Text)
	o.b = append(o.b, '}', '}')
}

// entry appends a justonce.Entry.
func (o *object) entry(e *justonce.Entry) {
	o.b = append(o.b, '{')
	o.str("kind", string(e.Kind))
	o.time("at", e.At)
	if !e.Started.IsZero() {
		o.time("started", e.Started)
	}
	if e.Fence != 0 {
		o.int("fence", e.Fence)
	}
	o.str("state", string(e.State))
	o.strIf("outcome", string(e.Outcome))
	o.strIf("reference", e.Reference)
	o.failure(e.Failure)
	o.strIf("actor", e.Actor)
	o.strIf("note", e.Note)
	if len(e.Evidence) > 0 {
		o.name("evidence")
		o.b = append(o.b, '{')
		for _, k := range slices.Sorted(maps.Keys(e.Evidence)) {
			if o.b[len(o.b)-1] != '{' {
				o.b = append(o.b, ',')
			}
			o.b = appendString(o.b, k)
			o.b = append(o.b, ':')
			o.b = appendString(o.b, e.Evidence[k])
		}
		o.b = append(o.b, '}')
	}
	if len(e.Body) > 0 {
		o.raw("body", e.Body)
	}
	o.boolIf("is_result", e.IsResult)
	o.b = append(o.b, '}')
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string; bytes that are not UTF-8 become
// U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), `\ufffd`...)
				start = i + 1
			}
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
