package justonce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

func benchRunner(b *testing.B, cache int) *justonce.Runner {
	done := json.RawMessage(`{"id":"ch_1","status":"succeeded"}`)
	r, err := justonce.New(inmem.New(nil), &justonce.RunnerOptions{CacheBytes: cache, Tools: []*justonce.Tool{{
		Name: "charge",
		Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
			return done, nil
		}),
	}}})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

var benchArguments = json.RawMessage(`{"order_id":"123","amount":9900,"currency":"CNY"}`)

// A replay from the cache: canonical form, fingerprint, one lookup.
func BenchmarkReplayCached(b *testing.B) {
	r := benchRunner(b, 0)
	call := justonce.Call{Tool: "charge", Key: "shop-1:order-123:pay-v1", Arguments: benchArguments}
	if _, err := r.Do(b.Context(), call); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			a, err := r.Do(context.Background(), call)
			if err != nil || !a.Replayed {
				b.Fatal(a, err)
			}
		}
	})
}

// What Runner.Do costs by itself: a first call on a store in memory.
func BenchmarkFirstCallInMemory(b *testing.B) {
	r := benchRunner(b, -1)
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			call := justonce.Call{Tool: "charge", Key: fmt.Sprint("k", n.Add(1)), Arguments: benchArguments}
			if a, err := r.Do(context.Background(), call); err != nil || a.Replayed {
				b.Fatal(a, err)
			}
		}
	})
}
