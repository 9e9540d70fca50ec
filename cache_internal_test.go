package justonce

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func cached(key string, result int) *Operation {
	return &Operation{Ref: Ref{Key: key}, Status: Status{State: Succeeded}, Result: json.RawMessage(strings.Repeat("x", result))}
}

// kept returns what is in c, and fails if the books are wrong.
func kept(t *testing.T, c *cache) (ops []*Operation) {
	t.Helper()
	for i := range c.shards {
		s := &c.shards[i]
		sets := s.sets.Load()
		if sets == nil {
			continue
		}
		size := 0
		for j := range *sets {
			for k := range (*sets)[j] {
				if op := (*sets)[j][k].op.Load(); op != nil {
					ops = append(ops, op)
					size += operationSize + len(op.Result)
				}
			}
		}
		if size != s.size || size > c.limit {
			t.Errorf("a shard holds %d bytes and counts %d, the limit is %d", size, s.size, c.limit)
		}
	}
	return ops
}

func TestCache(t *testing.T) {
	t.Parallel()
	c := newCache(1 << 20)
	get := func(key string) *Operation { return c.get(Ref{Key: key}, time.Now) }
	if get("a") != nil {
		t.Error("found in an empty cache")
	}
	first, second := cached("a", 10), cached("a", 20)
	c.put(first)
	c.put(first)
	if get("a") != first {
		t.Error("what was put in is not there")
	}
	c.put(second)
	if got := kept(t, c); get("a") != second || len(got) != 1 {
		t.Errorf("after it was put in anew there are %d", len(got))
	}
	if c.get(Ref{Tenant: "another", Key: "a"}, time.Now) != nil {
		t.Error("another tenant got it")
	}
	c.drop(Ref{Key: "a"})
	c.drop(Ref{Key: "never there"})
	if got := kept(t, c); get("a") != nil || len(got) != 0 {
		t.Errorf("after it was dropped there are %d", len(got))
	}
	newer, older := cached("a", 1), cached("a", 1)
	newer.Version, older.Version = 3, 2
	c.put(newer)
	c.put(older)
	if get("a") != newer {
		t.Error("an older version has taken the place of a newer one")
	}
	c.drop(Ref{Key: "a"})
	for i := range 20 {
		op := cached("a", 1)
		op.Tenant = fmt.Sprint(i)
		c.put(op)
	}
	if got := kept(t, c); len(got) < 15 {
		t.Errorf("of 20 tenants with one key %d are kept", len(got))
	}
	c.put(cached("large", 1<<20))
	old := cached("old", 1)
	old.DedupeUntil = time.Unix(1, 0)
	c.put(old)
	open := cached("open", 1)
	open.State = Running
	c.put(open)
	for _, key := range []string{"large", "old", "open"} {
		if get(key) != nil {
			t.Errorf("%q must not be answered from the cache", key)
		}
	}
	for i := range 10_000 {
		op := cached(fmt.Sprint(i), i%3000)
		c.put(op)
		if get(op.Key) != op {
			t.Fatal("what was put in last is not there")
		}
	}
	if got := kept(t, c); len(got) < 200 {
		t.Errorf("only %d are kept of a megabyte", len(got))
	}
	off := newCache(-1)
	off.put(first)
	if off.get(first.Ref, time.Now) != nil || len(kept(t, off)) != 0 {
		t.Error("a cache that is off keeps something")
	}
}

func TestCache_Concurrent(t *testing.T) {
	t.Parallel()
	c := newCache(1 << 17)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 3000 {
				op := cached(fmt.Sprint(i*7%300), i%100)
				c.put(op)
				if got := c.get(op.Ref, time.Now); got != nil && got.Ref != op.Ref {
					t.Errorf("asked for %v, got %v", op.Ref, got.Ref)
				}
				if i%5 == 0 {
					c.drop(op.Ref)
				}
			}
		})
	}
	wg.Wait()
	kept(t, c)
}
