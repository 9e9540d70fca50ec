package storetest

import (
	"fmt"

	"github.com/justonce-dev/justonce"
)

// check compares what the callers were told with what is recorded.
func (r *race) check() {
	t := r.l.t
	t.Helper()
	if t.Failed() {
		return
	}
	for name, n := range r.fresh {
		if n != 1 {
			t.Errorf("%d calls for %q are Fresh, want 1", n, name)
		}
	}
	writes := make(map[justonce.Ref]map[int64]raceWrite)
	for _, w := range r.writes {
		of := writes[w.op.Ref]
		if of == nil {
			of = make(map[int64]raceWrite)
			writes[w.op.Ref] = of
		}
		if other, ok := of[w.op.Version]; ok {
			t.Errorf("%s and %s were both told that they wrote version %d of %s", other.note, w.note, w.op.Version, w.op.Key)
		}
		of[w.op.Version] = w
	}
	for ref, of := range writes {
		r.checkOne(ref, of)
	}
	for _, op := range r.reads {
		if w, ok := writes[op.Ref][op.Version]; !ok {
			t.Errorf("version %d of %s was read and nobody was told that he wrote it", op.Version, op.Key)
		} else if d := diff(op, w.op); d != "" {
			t.Errorf("version %d of %s was read otherwise than %s wrote it:\n%s", op.Version, op.Key, w.note, d)
		}
	}
	for _, past := range r.pasts {
		h := r.l.mustHistory(past.Operation.Ref)
		if len(past.History) > len(h) {
			t.Errorf("the history of %s became shorter", past.Operation.Key)
			continue
		}
		r.l.want("the beginning of the history of "+past.Operation.Key, h[:len(past.History)], past.History)
	}
}

// checkOne replays the writes to one operation in the order of their versions.
func (r *race) checkOne(ref justonce.Ref, of map[int64]raceWrite) {
	t := r.l.t
	last := int64(len(of))
	final, history := r.l.mustGet(ref), r.l.mustHistory(ref)
	if final.Version != last {
		t.Errorf("version %d of %s is recorded after %d acknowledged writes", final.Version, ref.Key, last)
	}
	if int64(len(history)) != last {
		t.Errorf("%d entries of %s are recorded after %d acknowledged writes of one each", len(history), ref.Key, last)
	}
	var was *justonce.Operation
	for v := int64(1); v <= last; v++ {
		w, ok := of[v]
		if !ok {
			t.Errorf("nobody was told that he wrote version %d of %s", v, ref.Key)
			return
		}
		if v <= int64(len(history)) && history[v-1].Note != w.note {
			t.Errorf("entry %d of %s is that of %s, want that of %s, who wrote the version", v, ref.Key, history[v-1].Note, w.note)
		}
		if was != nil && !w.at.IsZero() {
			if !was.IsDue(w.at) {
				t.Errorf("version %d of %s was given to %s at %v although it was not due: leased until %v", v, ref.Key, w.note, w.at, was.LeaseUntil)
			}
			if w.op.Fence <= was.Fence {
				t.Errorf("version %d of %s: a claim made fence %d of %d", v, ref.Key, w.op.Fence, was.Fence)
			}
		}
		was = w.op
	}
	r.l.want(fmt.Sprintf("the last version of %s", ref.Key), final, was)
}
