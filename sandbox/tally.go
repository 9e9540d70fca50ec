package sandbox

import (
	"encoding/json"
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally is the truth about what was done. One short mutex guards it; rendering happens outside,
// on a view. An effect costs about 300 bytes besides its request body
// (measured by BenchmarkPayment), so a million of them fit into half a gigabyte.
type tally struct {
	mu      sync.Mutex
	epoch   string // part of every id; kept by the journal
	base    int64  // seq of entries[0] is base+1
	entries []entry
	latest  [len(services)]map[string]int32 // newest entry by reference; older ones by entry.older
	counts  [len(services)]int
	marks   map[uint64]int32 // how often each marker was seen
	repeats []int32          // entries whose marker had been seen before
	keys    map[string]answer
	running map[string]struct{} // keys being executed
	ends    map[int64]jobEnd    // by seq
	seed    maphash.Seed
	journal *journal
	shut    bool
}

// entry is an Effect, compactly. It never changes once it is in entries, so a view needs no lock.
type entry struct {
	at      int64 // Unix nanoseconds
	intent  string
	key     string
	ref     string
	fault   string
	older   int32 // the entry before with the same service and reference, or -1
	sent    uint16
	service uint8
}

// answer is what a key's later requests get.
type answer struct {
	print  fingerprint
	at     int64
	body   string // of an answer without effect
	effect int32  // entry the body is rendered from, or -1
	status uint16
}

type fingerprint [16]byte

// jobEnd is how a job stands by somebody's word, rather than by the time that passed.
type jobEnd struct {
	Status   string          `json:"status"` // running, done or failed
	Progress int             `json:"progress"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func newTally(epoch string) *tally {
	t := &tally{epoch: epoch, running: map[string]struct{}{}, seed: maphash.MakeSeed()}
	t.clear()
	return t
}

func (t *tally) clear() {
	t.base += int64(len(t.entries))
	t.entries, t.repeats = nil, nil
	for i := range t.latest {
		t.latest[i] = map[string]int32{}
	}
	t.counts = [len(services)]int{}
	t.marks = map[uint64]int32{}
	t.keys = map[string]answer{}
	t.ends = map[int64]jobEnd{}
}

// add counts one effect. The caller holds mu and has written the journal.
func (t *tally) add(e entry, fields map[string]any) int {
	i := int32(len(t.entries))
	e.older = -1
	if e.ref != "" {
		if before, ok := t.latest[e.service][e.ref]; ok {
			e.older = before
		}
		t.latest[e.service][e.ref] = i
	}
	t.entries = append(t.entries, e)
	t.counts[e.service]++
	if mark, ok := t.mark(&services[e.service], fields); ok {
		if t.marks[mark]++; t.marks[mark] > 1 {
			t.repeats = append(t.repeats, i)
		}
	}
	return int(i)
}

func (t *tally) mark(s *service, fields map[string]any) (uint64, bool) {
	var h maphash.Hash
	h.SetSeed(t.seed)
	h.WriteByte(s.index)
	for _, name := range s.marker {
		v, ok := fields[name]
		if !ok {
			return 0, false
		}
		text := textOf(v)
		h.WriteString(strconv.Itoa(len(text)))
		h.WriteByte(':')
		h.WriteString(text)
	}
	return h.Sum64(), true
}

func (t *tally) countAll() [len(services)]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

func (t *tally) reset(now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.append(line{Event: eventReset, Time: now.UTC()}); err != nil {
		return err
	}
	t.clear()
	return nil
}

// append writes a journal line, or fails without a trace. The caller holds mu.
func (t *tally) append(l line) error {
	if t.shut {
		return errorf(http.StatusServiceUnavailable, "api_error", "closed", "The sandbox is closed; nothing was done.")
	}
	if t.journal == nil {
		return nil
	}
	if err := t.journal.append(l); err != nil {
		return errorf(http.StatusInternalServerError, "api_error", "journal_unavailable", "Nothing was done, as the journal cannot be written: %v.", err)
	}
	return nil
}

func (t *tally) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shut = true
	if t.journal == nil {
		return nil
	}
	return t.journal.close()
}

// view is the tally at one moment.
type view struct {
	epoch   string
	base    int64
	entries []entry
}

func (t *tally) view() view {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.viewLocked()
}

func (t *tally) viewLocked() view { return view{t.epoch, t.base, t.entries} }

func (v view) id(i int) string {
	return services[v.entries[i].service].id(v.epoch, v.base+int64(i)+1)
}

func (v view) effect(i int) Effect {
	e := &v.entries[i]
	return Effect{Seq: v.base + int64(i) + 1, Time: time.Unix(0, e.at).UTC(), Service: services[e.service].name,
		ID: v.id(i), Key: e.key, Reference: e.ref, Status: int(e.sent), Fault: e.fault, Intent: json.RawMessage(e.intent)}
}

// find returns the entry that an id names.
func (v view) find(s *service, id string) (int, bool) {
	rest, ok := strings.CutPrefix(id, s.prefix+"_"+v.epoch+"_")
	seq, err := strconv.ParseInt(rest, 10, 64)
	i := seq - v.base - 1
	if !ok || err != nil || i < 0 || i >= int64(len(v.entries)) || v.entries[i].service != s.index || v.id(int(i)) != id {
		return 0, false
	}
	return int(i), true
}
