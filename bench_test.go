package justonce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

func benchRunner(b *testing.B, cache int) *justonce.Runner {
	return benchRunnerOn(b, inmem.New(nil), cache)
}

func benchRunnerOn(b *testing.B, s justonce.Store, cache int) *justonce.Runner {
	done := json.RawMessage(`{"id":"ch_1","status":"succeeded"}`)
	r, err := justonce.New(s, &justonce.RunnerOptions{CacheBytes: cache, Tools: []*justonce.Tool{{
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

// A nowhere records nothing, at once.
type nowhere struct{ justonce.Store }

func (nowhere) Now() time.Time { return time.Now() }

func (nowhere) Begin(_ context.Context, op *justonce.Operation, _ justonce.Entry) (*justonce.Arrival, error) {
	op.Version = 1
	return &justonce.Arrival{Fresh: true}, nil
}

func (nowhere) Update(_ context.Context, op *justonce.Operation, _ ...justonce.Entry) error {
	op.Version++
	return nil
}

// What a Runner costs by itself: first calls that no store has to record.
// Impatient callers may give up before they have the result.
func BenchmarkFirstCallUnrecorded(b *testing.B) {
	for _, impatient := range []bool{false, true} {
		b.Run(fmt.Sprintf("impatient=%t", impatient), func(b *testing.B) {
			r := benchRunnerOn(b, nowhere{inmem.New(nil)}, 0)
			keys := make([]string, 1<<10)
			for i := range keys {
				keys[i] = fmt.Sprint("shop-1:order-", i, ":pay-v1:")
			}
			var callers atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if !impatient {
					ctx = context.Background()
				}
				caller := strconv.FormatInt(callers.Add(1), 36)
				for n := 0; p.Next(); n++ {
					key := keys[n%len(keys)] + caller + strconv.Itoa(n)
					call := justonce.Call{Tool: "charge", Key: key, Scope: "account-1", RunID: "run-1", Arguments: benchArguments}
					if a, err := r.Do(ctx, call); err != nil || a.Replayed {
						b.Fatal(a, err)
					}
				}
			})
		})
	}
}
