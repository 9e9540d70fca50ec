package justonce

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/justonce-dev/justonce/internal/canon"
)

// An Effect says what running a tool does to the world.
type Effect string

const (
	Read        Effect = "read"         // nothing
	Idempotent  Effect = "idempotent"   // repeating it is harmless by itself
	Write       Effect = "write"        // something that must not happen twice
	LongRunning Effect = "long_running" // a write that starts a job and is polled
)

// Dedupe says how long a derived key stands for the same intent.
type Dedupe string

const (
	// Strict: for DedupeFor after the operation ended.
	Strict Dedupe = "strict"
	// UntilDelivered: until its result reached the caller ([Runner.Delivered]), or
	// for DedupeFor after the end if it never does.
	UntilDelivered Dedupe = "until_delivered"
)

// WireKeyForm says what the provider receives as its idempotency key.
type WireKeyForm string

const (
	// WireKeyHash: 32 lower-case hex digits, fits every provider known.
	WireKeyHash WireKeyForm = "hash"
	// WireKeyRaw: the operation's key itself, or one of the same form where it is
	// derived; after a redrive followed by "~" and their number.
	WireKeyRaw WireKeyForm = "raw"
)

// A Tool is a named capability. It must not be changed once a [Runner] has it.
type Tool struct {
	Name        string
	Description string
	Effect      Effect // defaults to Write

	// Identity lists the JSON Pointers of the arguments that make two calls
	// the same business intent, such as /order_id. A call that lacks one of
	// them is refused.
	Identity []string
	// Ignore lists the JSON Pointers that count for nothing: neither for the
	// key nor for the fingerprint.
	Ignore []string
	// Equal refines when arguments are equal. Nil: exact JSON equality.
	Equal *Equality

	Dedupe    Dedupe        // defaults to Strict
	DedupeFor time.Duration // of derived keys; defaults to 24h; longer than any retry
	WireKey   WireKeyForm   // defaults to WireKeyHash

	// ArgumentsLimit is the greatest size of arguments, in bytes. Defaults to 1
	// MiB; at most 1 GiB.
	ArgumentsLimit int

	Policy    Policy
	Connector Connector

	// Validate refuses arguments before anything is recorded. Nil: any JSON.
	// Its error is shown to the caller.
	Validate func(arguments json.RawMessage) error
	// Schema is the JSON Schema of the arguments, for tools lists; may be nil.
	Schema json.RawMessage

	canon    *canon.Options
	identity []canon.Pointer
}

// Equality declares what, beyond JSON itself, makes arguments equal. Each list
// holds JSON Pointers; "*" matches every member or index.
type Equality struct {
	Sets         []string // arrays whose order counts for nothing
	Instants     []string // RFC 3339 date-times compared as instants
	Text         []string // strings compared after Normalize
	NullIsAbsent []string
	Defaults     map[string]json.RawMessage // filled in where absent
	// Normalize brings text to one form, such as Unicode NFC. Needed with Text.
	Normalize func([]byte) []byte
}

// A ToolInfo is what may be told of a tool to anybody who may call it.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Effect      Effect          `json:"effect"`
	Capability  Capability      `json:"capability,omitempty"`
	Level       int             `json:"level,omitempty"`
	Dedupe      Dedupe          `json:"dedupe,omitempty"`
	Identity    []string        `json:"identity,omitempty"`
	Ignore      []string        `json:"ignore,omitempty"`
	Schema      json.RawMessage `json:"input_schema,omitempty"`
}

// Info returns what may be told of t.
func (t *Tool) Info() ToolInfo {
	i := ToolInfo{Name: t.Name, Description: t.Description, Effect: t.Effect,
		Identity: t.Identity, Ignore: t.Ignore, Schema: t.Schema}
	if t.recorded() {
		i.Capability = t.Policy.Capability
		i.Level = i.Capability.Level()
		i.Dedupe = t.Dedupe
	}
	return i
}

// recorded reports whether calls become operations.
func (t *Tool) recorded() bool { return t.Effect == Write || t.Effect == LongRunning }

var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./-]{0,127}$`)

// prepare fills in defaults and checks t; it returns the copy to use.
func (t *Tool) prepare() (*Tool, error) {
	c := *t
	bad := func(format string, a ...any) (*Tool, error) {
		return nil, fmt.Errorf("tool %q: %s", t.Name, fmt.Sprintf(format, a...))
	}
	if !toolName.MatchString(c.Name) {
		return bad("the name must start with a letter or digit and have at most 128 of A-Z a-z 0-9 _ . / -")
	}
	if c.Connector == nil {
		return bad("it has no connector")
	}
	if c.Effect == "" {
		c.Effect = Write
	}
	if c.Dedupe == "" {
		c.Dedupe = Strict
	}
	if c.DedupeFor == 0 {
		c.DedupeFor = 24 * time.Hour
	}
	if c.WireKey == "" {
		c.WireKey = WireKeyHash
	}
	if _, ok := c.Connector.(Finder); ok {
		c.Policy.CanLookup = true
	}
	c.Policy = c.Policy.WithDefaults()
	switch p := &c.Policy; {
	case c.Effect != Read && c.Effect != Idempotent && c.Effect != Write && c.Effect != LongRunning:
		return bad("effect %q is none of read, idempotent, write, long_running", c.Effect)
	case c.Dedupe != Strict && c.Dedupe != UntilDelivered:
		return bad("dedupe %q is neither strict nor until_delivered", c.Dedupe)
	case c.WireKey != WireKeyHash && c.WireKey != WireKeyRaw:
		return bad("wire key %q is neither hash nor raw", c.WireKey)
	case !p.Capability.Valid() || !p.Fallback.Valid() || p.Fallback == ByKey:
		return bad("capability %q with fallback %q: want key, reference, list or none, and no key as fallback", p.Capability, p.Fallback)
	case (p.Capability == ByReference || p.Capability == ByList) && !p.CanLookup:
		return bad("capability %s needs a connector that can look up", p.Capability)
	case c.Effect == LongRunning && !p.CanLookup:
		return bad("a long-running tool needs a connector that can look up")
	case p.renews() && p.Lease < time.Second:
		return bad("the lease (%s) must be at least 1s, or longer than the timeout of an attempt (%s)", p.Lease, p.Timeout)
	case p.Capability == ByKey && p.Window <= p.Margin:
		return bad("the window (%s) must be longer than its margin (%s)", p.Window, p.Margin)
	}
	if err := c.compile(); err != nil {
		return bad("%v", err)
	}
	return &c, nil
}

func (t *Tool) compile() error {
	var err error
	t.canon, t.identity = &canon.Options{MaxBytes: t.ArgumentsLimit}, nil
	list := func(dst *[]canon.Pointer, src []string) {
		for _, s := range src {
			p, e := canon.ParsePointer(s)
			if e != nil && err == nil {
				err = e
			}
			*dst = append(*dst, p)
		}
	}
	list(&t.identity, t.Identity)
	for _, s := range t.Identity {
		if strings.Contains(s, "/*/") || strings.HasSuffix(s, "/*") {
			return fmt.Errorf("identity %s: * stands for several values, and an identity is one", s)
		}
	}
	list(&t.canon.Ignore, t.Ignore)
	if q := t.Equal; q != nil {
		list(&t.canon.Sets, q.Sets)
		list(&t.canon.Instants, q.Instants)
		list(&t.canon.NFC, q.Text)
		list(&t.canon.NullIsAbsent, q.NullIsAbsent)
		t.canon.Normalize = q.Normalize
		for s, v := range q.Defaults {
			p, e := canon.ParsePointer(s)
			if e != nil {
				return e
			}
			t.canon.Defaults = append(t.canon.Defaults, canon.Default{Pointer: p, Value: v})
		}
		if len(q.Text) > 0 && q.Normalize == nil {
			return fmt.Errorf("text paths need a Normalize func")
		}
	}
	if err != nil {
		return err
	}
	return t.canon.Check()
}

// A Func is a tool in the caller's own process.
//
// A nil error means that the effect happened; its value is recorded as JSON.
// An error means that nobody knows, unless it is wrapped by [RejectedError],
// [NotExecutedError] or [WithdrawnError]. A panic is unknown, too.
type Func func(ctx context.Context, arguments json.RawMessage) (any, error)

// Send implements [Connector].
func (f Func) Send(ctx context.Context, a *Attempt) Outcome {
	v, err := f(ctx, a.Arguments)
	if err != nil {
		return outcomeOf(err)
	}
	if raw, ok := v.(json.RawMessage); ok {
		return Outcome{Kind: OutcomeSucceeded, Result: raw}
	}
	b, err := json.Marshal(v)
	if err != nil {
		// The effect happened all the same.
		b, _ = json.Marshal(fmt.Sprintf("%v", v))
		return Outcome{Kind: OutcomeSucceeded, Result: b, Evidence: map[string]string{"note": "the result is not JSON: " + err.Error()}}
	}
	return Outcome{Kind: OutcomeSucceeded, Result: b}
}
