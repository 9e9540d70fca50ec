package justonce

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/justonce-dev/justonce/internal/canon"
)

// Algorithm names the rules by which keys and fingerprints are made now. It is
// recorded with each operation.
const Algorithm = "1"

// MaxKey is the greatest length of a given key in bytes.
const MaxKey = 255

// derivedPrefix marks keys that justonce made.
const derivedPrefix = "op_"

// An Intent is a call with its names worked out: computed once on arrival and
// carried along, so that nothing that happens to the arguments later changes
// them.
type Intent struct {
	Ref
	KeySource   KeySource
	Scope       string
	RunID       string
	IntentSeq   int
	Identity    string
	Fingerprint string
	// Canonical is what was fingerprinted: the canonical arguments without the
	// ignored ones.
	Canonical []byte
	// IdentityValues holds the canonical values of the declared identity.
	IdentityValues [][]byte
}

// identify works out which operation a call of t means. The error is an
// *[InvalidError].
func (t *Tool) identify(ctx context.Context, c *Call) (*Intent, error) {
	in := new(Intent)
	if err := t.identifyIn(ctx, c, in); err != nil {
		return nil, err
	}
	return in, nil
}

// name is identify without what in is made of: Canonical and IdentityValues.
func (t *Tool) name(ctx context.Context, c *Call, in *Intent) error {
	room := buffers.Get().(*[]byte)
	in.Canonical = *room
	err := t.identifyIn(ctx, c, in)
	if cap(in.Canonical) <= mostKept {
		*room = in.Canonical
	}
	buffers.Put(room)
	in.Canonical, in.IdentityValues = nil, nil
	return err
}

// identifyIn is identify for an in whose Canonical may have room.
func (t *Tool) identifyIn(ctx context.Context, c *Call, in *Intent) error {
	in.Tenant, in.Key = c.Tenant, c.Key
	in.Scope, in.RunID, in.IntentSeq = c.Scope, c.RunID, c.IntentSeq
	if in.Tenant == "" {
		in.Tenant = DefaultTenant
	}
	if in.RunID == "" {
		in.RunID = InheritedRun(ctx)
	}
	if in.IntentSeq == 0 {
		in.IntentSeq = 1
	}
	if err := in.check(); err != nil {
		return err
	}
	args := c.Arguments
	if len(args) == 0 {
		args = emptyArguments
	}
	var err error
	if in.Canonical, err = canon.Append(slices.Grow(in.Canonical[:0], len(args)), args, t.canon); err != nil {
		return argumentsError(err)
	}
	if in.Canonical[0] != '{' {
		return &InvalidError{Field: "arguments", Detail: "they must be a JSON object"}
	}
	seq := strconv.Itoa(in.IntentSeq)
	in.Fingerprint = digest(fullDigest, "fingerprint", in.Canonical, t.Name, in.Scope)
	if len(t.identity) > 0 {
		parts := []string{in.Tenant, in.Scope, t.Name, seq}
		for i, p := range t.identity {
			v, ok := canon.Find(in.Canonical, p)
			if !ok || string(v) == "null" {
				return &InvalidError{Field: t.Identity[i], Schema: true,
					Detail: fmt.Sprintf("the call needs it: it is what identifies the intent of %s", t.Name)}
			}
			in.IdentityValues = append(in.IdentityValues, v)
			parts = append(parts, string(v))
		}
		in.Identity = digest(fullDigest, "identity", nil, parts...)
	}
	switch inherited := InheritedKey(ctx); {
	case in.Key != "":
		in.KeySource = KeyGiven
		return CheckKey(in.Key)
	case inherited != "":
		in.Key, in.KeySource = inherited, KeyInherited
		return CheckKey(in.Key)
	case in.Identity != "":
		in.KeySource = KeyIdentity
		in.Key = derivedPrefix + in.Identity[:40]
	default:
		in.KeySource = KeyContent
		in.Key = derivedPrefix + digest(40, "content", in.Canonical, in.Tenant, in.Scope, in.RunID, t.Name, seq)
	}
	return nil
}

var emptyArguments = json.RawMessage("{}")

func (in *Intent) check() error {
	for _, f := range [...]struct{ name, value string }{{"tenant", in.Tenant}, {"scope", in.Scope}, {"run_id", in.RunID}} {
		if len(f.value) > MaxKey || !printable(f.value) {
			return &InvalidError{Field: f.name, Detail: "at most 255 printable ASCII characters, please"}
		}
	}
	if in.observed() {
		return &InvalidError{Field: "tenant", Detail: "observed calls are recorded there; call for the tenant itself"}
	}
	if in.IntentSeq < 1 {
		return &InvalidError{Field: "intent_seq", Detail: "it counts from 1"}
	}
	return nil
}

// CheckKey returns an *[InvalidError] unless key has 1 to 255 printable ASCII
// characters and no space at its ends.
func CheckKey(key string) error {
	switch {
	case key == "":
		return &InvalidError{Field: "key", Detail: "it is empty"}
	case len(key) > MaxKey:
		return &InvalidError{Field: "key", TooLarge: true, Detail: fmt.Sprintf("it has %d characters; at most 255 are allowed", len(key))}
	case !printable(key):
		return &InvalidError{Field: "key", Detail: "it may have printable ASCII characters only"}
	case key[0] == ' ' || key[len(key)-1] == ' ':
		return &InvalidError{Field: "key", Detail: "it starts or ends with a space"}
	}
	return nil
}

func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

func argumentsError(err error) error {
	e := &InvalidError{Field: "arguments", Detail: err.Error()}
	if s := (*canon.SyntaxError)(nil); errors.As(err, &s) {
		e.TooLarge = s.Kind == canon.KindSize
	}
	return e
}

// wireKey returns what the provider gets as its idempotency key. A derived key
// stands for another operation once its time is over, and the provider may
// still remember the first; hence the creation time.
func (t *Tool) wireKey(op *Operation) string {
	key, series := op.Key, strconv.Itoa(op.Series)
	if op.KeySource.derived() {
		key = op.archived().Key
	}
	if t.WireKey != WireKeyRaw {
		return digest(32, "wire", nil, op.Tenant, key, series)
	}
	if op.KeySource.derived() { // no longer than the operation's key
		key = derivedPrefix + digest(40, "raw", nil, op.Tenant, key)
	}
	if op.Series > 0 {
		key += "~" + series
	}
	return key
}

// mostKept is the size of a buffer that is worth keeping.
const mostKept = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// fullDigest is the number of digits that a SHA-256 has.
const fullDigest = 2 * sha256.Size

// digest returns the first digits of the hex SHA-256 of a versioned,
// domain-separated tuple whose parts are length-prefixed, so that no two tuples
// share an encoding.
func digest(digits int, domain string, last []byte, parts ...string) string {
	buf := buffers.Get().(*[]byte)
	b := append((*buf)[:0], "justonce/"+Algorithm+"/"...)
	b = append(b, domain...)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	if last != nil {
		b = binary.BigEndian.AppendUint64(b, uint64(len(last)))
		b = append(b, last...)
	}
	sum := sha256.Sum256(b)
	if cap(b) <= mostKept {
		*buf = b
	}
	buffers.Put(buf)
	return hexString(&sum, digits)
}

func hexString(sum *[sha256.Size]byte, digits int) string {
	var text [fullDigest]byte
	hex.Encode(text[:], sum[:])
	return string(text[:digits])
}
