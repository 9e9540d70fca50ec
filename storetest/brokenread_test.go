package storetest_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/justonce-dev/justonce"
)

type offsets struct{ justonce.Store }

func (s offsets) List(ctx ctxT, f justonce.Filter) (*justonce.Page, error) {
	offset := 0
	if f.Cursor != "" {
		n, err := strconv.Atoi(f.Cursor)
		if err != nil || n < 0 {
			return nil, justonce.ErrInvalid
		}
		offset = n
	}
	limit := f.Limit
	if limit == 0 {
		limit = 50
	}
	f.Cursor, f.Limit = "", 1000
	page, err := s.Store.List(ctx, f)
	if err != nil {
		return nil, err
	}
	page.Operations = page.Operations[min(offset, len(page.Operations)):]
	if len(page.Operations) > limit {
		page.Operations = page.Operations[:limit]
		page.Next = strconv.Itoa(offset + limit)
	}
	return page, nil
}

// sharing hands out one operation to all who ask for a version.
type sharing struct {
	justonce.Store
	mu   *sync.Mutex
	seen map[string]*opT
}

func newSharing(s justonce.Store) sharing {
	return sharing{s, new(sync.Mutex), make(map[string]*opT)}
}

func (s sharing) Get(ctx ctxT, ref justonce.Ref) (*opT, error) {
	op, err := s.Store.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strconv.FormatInt(op.Version, 10) + ref.Tenant + "/" + ref.Key
	if s.seen[id] == nil {
		s.seen[id] = op
	}
	c := *s.seen[id] // but not what it refers to
	return &c, nil
}

type compacts struct{ justonce.Store }

func (s compacts) Get(ctx ctxT, ref justonce.Ref) (*opT, error) {
	op, err := s.Store.Get(ctx, ref)
	if err == nil && op.Result != nil {
		var b bytes.Buffer
		if json.Compact(&b, op.Result) == nil {
			op.Result = b.Bytes()
		}
	}
	return op, err
}

type microseconds struct{ justonce.Store }

func (s microseconds) Get(ctx ctxT, ref justonce.Ref) (*opT, error) {
	op, err := s.Store.Get(ctx, ref)
	if err == nil {
		op.FirstSent = op.FirstSent.Truncate(time.Microsecond)
	}
	return op, err
}

type purgesAll struct{ justonce.Store }

func (s purgesAll) Get(ctx ctxT, ref justonce.Ref) (*opT, error) {
	op, err := s.Store.Get(ctx, ref)
	if err == nil && op.Note == justonce.NotePurged {
		return nil, justonce.ErrNotFound
	}
	return op, err
}

type lagOfEnded struct{ justonce.Store }

func (s lagOfEnded) Stats(ctx ctxT) (*justonce.Stats, error) {
	stats, err := s.Store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	page, err := s.List(ctx, justonce.Filter{Tenant: "acme"})
	if err != nil {
		return nil, err
	}
	for _, op := range page.Operations {
		if !op.Due.IsZero() {
			stats.Lag = max(stats.Lag, s.Now().Sub(op.Due))
		}
	}
	return stats, nil
}

// caching remembers what was read and forgets it when it writes itself.
type caching struct {
	justonce.Store
	seen sync.Map
}

func (s *caching) Get(ctx ctxT, ref justonce.Ref) (*opT, error) {
	if op, ok := s.seen.Load(ref); ok {
		c := *op.(*opT)
		return &c, nil
	}
	op, err := s.Store.Get(ctx, ref)
	if err == nil {
		c := *op
		s.seen.Store(ref, &c)
	}
	return op, err
}

func (s *caching) Update(ctx ctxT, op *opT, entries ...entryT) error {
	err := s.Store.Update(ctx, op, entries...)
	s.seen.Delete(op.Ref)
	return err
}

func (s *caching) Claim(ctx ctxT, due justonce.Due, advance advanceT) ([]*opT, error) {
	ops, err := s.Store.Claim(ctx, due, advance)
	for _, op := range ops {
		s.seen.Delete(op.Ref)
	}
	return ops, err
}

func (s *caching) Purge(ctx ctxT, before time.Time, limit int) (int, error) {
	n, err := s.Store.Purge(ctx, before, limit)
	s.seen.Clear()
	return n, err
}
