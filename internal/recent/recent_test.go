package recent_test

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce/internal/recent"
)

func hash(n uint64) [16]byte {
	s := sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
	return [16]byte(s[:16])
}

func TestFilter(t *testing.T) {
	t.Parallel()
	const n = 20_000
	f := recent.New()
	var adders sync.WaitGroup
	for from := range uint64(2) {
		adders.Go(func() {
			for i := range uint64(n / 2) {
				f.Add(hash(2*i + from))
			}
		})
	}
	adders.Wait()
	wrong := 0
	for i := range uint64(n) {
		if !f.MayHave(hash(i)) {
			t.Fatalf("%d was added and is not there", i)
		}
		if f.MayHave(hash(n + i)) {
			wrong++
		}
	}
	if wrong > n/100 {
		t.Errorf("%d of %d that were not added are taken for known", wrong, n)
	}
}

// When the newer filter is full another is begun, and the older is forgotten.
func TestFilterForgets(t *testing.T) {
	t.Parallel()
	const n = 1000
	f := recent.New()
	for round := range uint64(4) {
		for i := range uint64(n) {
			f.Add(hash(round*n + i))
			f.Add(hash(round*n + i)) // known already: it does not count
		}
		for old := range round + 1 {
			known := 0
			for i := range uint64(n) {
				if f.MayHave(hash(old*n + i)) {
					known++
				}
			}
			if remembered := old+1 >= round; remembered && known < n || !remembered && known > n/100 {
				t.Errorf("in round %d, %d of %d of round %d are known", round, known, n, old)
			}
		}
		if got := f.Len(); got < n-5 || got > n {
			t.Errorf("in round %d the filter counts %d, want about %d", round, got, n)
		}
		f.Fill()
	}
}
