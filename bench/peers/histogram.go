package main

import (
	"encoding/json"
	"math/bits"
	"time"
)

// A histogram counts durations in buckets no wider than a 64th of what they
// hold, up to about an hour.
type histogram [2400]uint32

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 64 {
		return int(v)
	}
	shift := bits.Len64(v) - 7
	return min(shift*64+int(v>>shift), len(histogram{})-1)
}

func (h *histogram) add(d time.Duration) { h[bucket(d)]++ }

func (h *histogram) merge(o *histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// quantile returns the duration below which the share q of all lies, or 0
// where there are none.
func (h *histogram) quantile(q float64) time.Duration {
	total := uint64(0)
	for _, n := range h {
		total += uint64(n)
	}
	rank, seen := uint64(q*float64(total)), uint64(0)
	for i, n := range h {
		if seen += uint64(n); seen > rank {
			return middle(i)
		}
	}
	return 0
}

// middle returns the middle of a bucket.
func middle(i int) time.Duration {
	if i < 128 {
		return time.Duration(i)
	}
	shift := i/64 - 1
	return time.Duration((i-shift*64)<<shift + 1<<shift/2)
}

// MarshalJSON leaves out what is empty.
func (h *histogram) MarshalJSON() ([]byte, error) {
	var pairs [][2]int
	for i, n := range h {
		if n > 0 {
			pairs = append(pairs, [2]int{i, int(n)})
		}
	}
	return json.Marshal(pairs)
}

func (h *histogram) UnmarshalJSON(b []byte) error {
	var pairs [][2]int
	if err := json.Unmarshal(b, &pairs); err != nil {
		return err
	}
	*h = histogram{}
	for _, p := range pairs {
		h[p[0]] = uint32(p[1])
	}
	return nil
}
