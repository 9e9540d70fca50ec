package canon_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/justonce-dev/justonce/internal/canon"
)

const small = `{"orderId":"123","amount":9900,"currency":"CNY","customer":"c-1","note":"x"}`

// tenKB is a batch of orders, members in an order that needs sorting.
func tenKB() []byte {
	var b bytes.Buffer
	b.WriteString(`{"orders": [`)
	for i := 0; b.Len() < 10<<10; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"orderId": "ord-%06d", "amount": %d.%02d, "note": "%s", "tags": ["a","b"], "address": {"zip": "10115", "city": "北京"}}`,
			i, i*7, i%100, strings.Repeat("please handle with care ", 3))
	}
	b.WriteString(`], "currency": "EUR"}`)
	return b.Bytes()
}

func BenchmarkAppend(b *testing.B) {
	sorted, _ := canon.Append(nil, []byte(small), nil)
	rules := &canon.Options{
		Ignore:   []canon.Pointer{{"note"}},
		Defaults: []canon.Default{{Pointer: canon.Pointer{"capture"}, Value: []byte("true")}},
	}
	for _, bc := range []struct {
		name string
		src  []byte
		o    *canon.Options
	}{
		{"small", []byte(small), nil},
		{"small-sorted", sorted, nil},
		{"small-rules", []byte(small), rules},
		{"10KB", tenKB(), nil},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.src)))
			var dst []byte
			var err error
			for b.Loop() {
				if dst, err = canon.Append(dst[:0], bc.src, bc.o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppendNested is the worst case: a large value inside unsorted objects, as deep as allowed.
func BenchmarkAppendNested(b *testing.B) {
	const depth = canon.DefaultMaxDepth - 1
	inner := "[" + strings.Repeat("1e40,", 200_000) + "1]"
	src := []byte(strings.Repeat(`{"b":`, depth) + inner + strings.Repeat(`,"a":1}`, depth))
	b.ReportAllocs()
	var dst []byte
	var err error
	for b.Loop() {
		if dst, err = canon.Append(dst[:0], src, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	doc, err := canon.Append(nil, []byte(small), nil)
	if err != nil {
		b.Fatal(err)
	}
	p := canon.Pointer{"orderId"}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := canon.Find(doc, p); !ok {
			b.Fatal("not found")
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 256)
	src := []byte(small)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := canon.Append(dst, src, nil); err != nil {
			t.Fatal(err)
		}
	}); n > 1 { // under -race the pool drops buffers at random
		t.Errorf("Append allocates %v times for a small object, want none", n)
	}
}
