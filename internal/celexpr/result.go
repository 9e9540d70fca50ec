package celexpr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// A Result is what an expression gave.
type Result struct{ val ref.Val }

// ErrNotText is the error of a value that has no obvious text.
var ErrNotText = errors.New("the value is neither text nor a number")

// Absent reports whether the result is an empty optional, as of args.?note
// where there is no note.
func (r Result) Absent() bool {
	o, ok := r.val.(*types.Optional)
	return ok && !o.HasValue()
}

func (r Result) inner() ref.Val {
	v := r.val
	for {
		o, ok := v.(*types.Optional)
		if !ok || !o.HasValue() {
			return v
		}
		v = o.GetValue()
	}
}

// IsNull reports whether the result is null or absent.
func (r Result) IsNull() bool { return r.Absent() || r.inner() == types.NullValue }

// Value returns the result for use as a variable.
func (r Result) Value() any { return r.inner() }

// Text returns strings as they are, numbers in decimal digits, booleans as true
// or false, timestamps in RFC 3339. Anything else is ErrNotText.
func (r Result) Text() (string, error) {
	switch v := r.inner().(type) {
	case types.String:
		return string(v), nil
	case types.Bytes:
		return string(v), nil
	case types.Bool:
		return strconv.FormatBool(bool(v)), nil
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case types.Int, types.Uint, types.Double, exactNumber:
		b, err := numberText(v)
		return string(b), err
	}
	return "", ErrNotText
}

// Time returns the instant that the result says: a timestamp, an RFC 3339
// string, or a number of seconds (or, above 1e11, milliseconds) since 1970.
func (r Result) Time() (time.Time, error) {
	unix := func(f float64) (time.Time, error) {
		if math.Abs(f) > 1e11 {
			f /= 1e3
		}
		if math.IsNaN(f) || math.Abs(f) > 1e11 {
			return time.Time{}, errors.New("the number is no time")
		}
		sec, frac := math.Modf(f)
		return time.Unix(int64(sec), int64(frac*1e9)).UTC(), nil
	}
	switch v := r.inner().(type) {
	case types.Timestamp:
		return v.Time, nil
	case types.String:
		return time.Parse(time.RFC3339, string(v))
	case types.Int:
		return unix(float64(v))
	case types.Uint:
		return unix(float64(v))
	case types.Double:
		return unix(float64(v))
	}
	return time.Time{}, errors.New("the value is no time")
}

// List returns the elements of a list.
func (r Result) List() ([]any, error) {
	l, ok := r.inner().(traits.Lister)
	if !ok {
		return nil, errors.New("the value is no list")
	}
	var out []any
	for it := l.Iterator(); it.HasNext() == types.True; {
		out = append(out, any(it.Next()))
	}
	return out, nil
}

// JSON returns the result as JSON with sorted members.
func (r Result) JSON() (json.RawMessage, error) {
	var b bytes.Buffer
	if err := encode(&b, r.inner(), 0); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func numberText(v ref.Val) ([]byte, error) {
	switch v := v.(type) {
	case exactNumber:
		return []byte(v.text), nil
	case types.Int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(nil, uint64(v), 10), nil
	}
	f, ok := v.Value().(float64)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errors.New("the number is not finite")
	}
	if f == 0 {
		return []byte("0"), nil // -0 too: integers know none
	}
	if abs := math.Abs(f); abs < 1e-6 || abs >= 1e21 {
		return strconv.AppendFloat(nil, f, 'e', -1, 64), nil
	}
	return strconv.AppendFloat(nil, f, 'f', -1, 64), nil
}

func encode(b *bytes.Buffer, v ref.Val, depth int) error {
	if depth > 100 {
		return errors.New("nested too deeply")
	}
	switch v := v.(type) {
	case types.Null:
		b.WriteString("null")
	case types.Bool:
		b.WriteString(strconv.FormatBool(bool(v)))
	case types.String:
		writeString(b, string(v))
	case types.Int, types.Uint, types.Double, exactNumber:
		n, err := numberText(v)
		if err != nil {
			return err
		}
		b.Write(n)
	case types.Timestamp:
		writeString(b, v.Time.UTC().Format(time.RFC3339Nano))
	case *types.Optional:
		if !v.HasValue() {
			b.WriteString("null")
			return nil
		}
		return encode(b, v.GetValue(), depth+1)
	case traits.Mapper:
		return encodeMap(b, v, depth)
	case traits.Lister:
		sep := byte('[')
		for it := v.Iterator(); it.HasNext() == types.True; sep = ',' {
			b.WriteByte(sep)
			if err := encode(b, it.Next(), depth+1); err != nil {
				return err
			}
		}
		if sep == '[' {
			b.WriteByte('[')
		}
		b.WriteByte(']')
	default:
		return fmt.Errorf("a value of type %s has no JSON", v.Type().TypeName())
	}
	return nil
}

func encodeMap(b *bytes.Buffer, m traits.Mapper, depth int) error {
	members := map[string]ref.Val{}
	var names []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		name, ok := k.(types.String)
		if !ok {
			return errors.New("a map whose keys are not strings has no JSON")
		}
		members[string(name)] = m.Get(k)
		names = append(names, string(name))
	}
	sort.Strings(names)
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		writeString(b, name)
		b.WriteByte(':')
		if err := encode(b, members[name], depth+1); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func writeString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string never fails
	b.Truncate(b.Len() - 1)
}

// ToJSON returns a variable's value as JSON.
func ToJSON(v any) (json.RawMessage, error) {
	return Result{types.DefaultTypeAdapter.NativeToValue(v)}.JSON()
}
