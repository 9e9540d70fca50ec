package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/justonce-dev/justonce/sandbox"
)

// BenchmarkPayment is the handler without the network: one effect per operation.
func BenchmarkPayment(b *testing.B) {
	for _, where := range []string{"memory", "journal"} {
		b.Run(where, func(b *testing.B) {
			opt := &sandbox.Options{}
			if where == "journal" {
				opt.Journal = filepath.Join(b.TempDir(), "effects.jsonl")
			}
			p, err := sandbox.New(opt)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var n atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					body := strings.NewReader(fmt.Sprintf(`{"amount":500,"currency":"EUR","order_id":"order-%d","customer":"cus_%d"}`, i, i%100))
					r := httptest.NewRequest(http.MethodPost, "/payments", body)
					r.Header.Set("Idempotency-Key", fmt.Sprintf("%032d", i))
					p.ServeHTTP(httptest.NewRecorder(), r)
				}
			})
			b.StopTimer()
			if got := int64(p.Count(sandbox.Payment)); got != n.Load() {
				b.Fatalf("got %d effects, want %d", got, n.Load())
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "kept-B/op")
		})
	}
}
