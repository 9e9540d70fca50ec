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

func putNow(c *cache, op *Operation) {
	hash, _, _ := c.find(op.Ref)
	c.put(op, c.moment(hash))
}

func TestCache(t *testing.T) {
	t.Parallel()
	c := newCache(1 << 20)
	put := func(op *Operation) { putNow(c, op) }
	get := func(key string) *Operation { op, _ := c.get(Ref{Key: key}, time.Now); return op }
	if get("a") != nil {
		t.Error("found in an empty cache")
	}
	first, second := cached("a", 10), cached("a", 20)
	put(first)
	put(first)
	if get("a") != first {
		t.Error("what was put in is not there")
	}
	put(second)
	if got := kept(t, c); get("a") != second || len(got) != 1 {
		t.Errorf("after it was put in anew there are %d", len(got))
	}
	if op, _ := c.get(Ref{Tenant: "another", Key: "a"}, time.Now); op != nil {
		t.Error("another tenant got it")
	}
	c.drop(Ref{Key: "a"})
	c.drop(Ref{Key: "never there"})
	if got := kept(t, c); get("a") != nil || len(got) != 0 {
		t.Errorf("after it was dropped there are %d", len(got))
	}
	_, asked := c.get(Ref{Key: "a"}, time.Now)
	c.drop(Ref{Key: "a"})
	c.put(first, asked)
	if get("a") != nil {
		t.Error("what was read before it was dropped has come in")
	}
	newer, older := cached("a", 1), cached("a", 1)
	newer.Version, older.Version = 3, 2
	put(newer)
	put(older)
	if get("a") != newer {
		t.Error("an older version has taken the place of a newer one")
	}
	c.drop(Ref{Key: "a"})
	for i := range 20 {
		op := cached("a", 1)
		op.Tenant = fmt.Sprint(i)
		put(op)
	}
	if got := kept(t, c); len(got) < 15 {
		t.Errorf("of 20 tenants with one key %d are kept", len(got))
	}
	put(cached("large", 1<<20))
	old := cached("old", 1)
	old.DedupeUntil = time.Unix(1, 0)
	put(old)
	open := cached("open", 1)
	open.State = Running
	put(open)
	for _, key := range []string{"large", "old", "open"} {
		if get(key) != nil {
			t.Errorf("%q must not be answered from the cache", key)
		}
	}
	for i := range 10_000 {
		op := cached(fmt.Sprint(i), i%3000)
		put(op)
		if get(op.Key) != op {
			t.Fatal("what was put in last is not there")
		}
	}
	if got := kept(t, c); len(got) < 200 {
		t.Errorf("only %d are kept of a megabyte", len(got))
	}
	off := newCache(-1)
	putNow(off, first)
	if op, _ := off.get(first.Ref, time.Now); op != nil || len(kept(t, off)) != 0 {
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
				putNow(c, op)
				if got, _ := c.get(op.Ref, time.Now); got != nil && got.Ref != op.Ref {
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
