package redis

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// setClock measures. It fails too if the ledger is not there any more.
func (s *Store) setClock(ctx context.Context) error {
	sent := time.Now()
	v, err := strs(s.read(ctx, scriptProbe))
	if err != nil {
		return err
	}
	received := time.Now()
	if len(v) != 3 || v[2] != s.mark {
		return errGone
	}
	sec, err1 := strconv.ParseInt(v[0], 10, 64)
	usec, err2 := strconv.ParseInt(v[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s.clock.Set(sent, received, time.Unix(sec, usec*1000))
	return nil
}
