package sqlite

import (
	"encoding/binary"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
)

// An encoder writes times with the lowest byte first, as files of this store
// have them.
type encoder struct{ packed.Encoder }

func (e *encoder) Time(t time.Time) {
	n, err := packed.Nanos(t, packed.NoTime)
	if err != nil && e.Err == nil {
		e.Err = err
	}
	e.B = binary.LittleEndian.AppendUint64(e.B, uint64(n))
}

// A decoder reads what an encoder wrote.
type decoder struct{ packed.Decoder }

func (d *decoder) Time() time.Time {
	raw := d.Take(8)
	if raw == nil {
		return time.Time{}
	}
	return packed.TimeOf(int64(binary.LittleEndian.Uint64(raw)), packed.NoTime)
}
