package storetest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

func (s *suite) list(t *testing.T) {
	s.test(t, "Empty", func(l *ledger) {
		l.mustBegin(l.newOp("k"))
		l.wantList(justonce.Filter{Tenant: "globex"})
		l.wantList(justonce.Filter{}) // the tenant "" is one like the others
	})
	s.test(t, "NewestFirst", listOrder)
	s.test(t, "WithoutBodies", listWithoutBodies)
	s.test(t, "Filters", listFilters)
	s.test(t, "Pages", listPages)
	s.test(t, "PagesOfAFilter", listPagesOfFilter)
	s.test(t, "CursorIsStable", listCursorIsStable)
	s.test(t, "DefaultLimit", listDefaultLimit)
	s.test(t, "UnknownCursor", listUnknownCursor)
}

// wantList lists and wants one last page with these keys.
func (l *ledger) wantList(f justonce.Filter, keys ...string) {
	l.t.Helper()
	page := l.mustList(f)
	l.want(fmt.Sprintf("List(%+v)", f), keysOf(page.Operations), keys)
	if page.Next != "" {
		l.t.Errorf("List(%+v): Next = %q on the last page, want none", f, page.Next)
	}
}

func keysOf(ops []*justonce.Operation) []string {
	keys := []string{}
	for _, op := range ops {
		keys = append(keys, op.Key)
	}
	return keys
}

// mustListAll follows the cursors and returns the keys of each page.
func (l *ledger) mustListAll(f justonce.Filter) [][]string {
	l.t.Helper()
	var pages [][]string
	for range 1000 {
		page := l.mustList(f)
		pages = append(pages, keysOf(page.Operations))
		if page.Next == "" {
			return pages
		}
		f.Cursor = page.Next
	}
	l.t.Fatal("List never comes to the last page")
	return nil
}

func listOrder(l *ledger) {
	for i, key := range []string{"b", "c", "a", "B", "10", "9"} { // two of each creation time
		l.mustBegin(l.newOp(key, func(op *justonce.Operation) {
			op.CreatedAt = l.clock.now().Add(time.Duration(i / 2))
		}))
	}
	l.mustBegin(l.newOp("old", func(op *justonce.Operation) { op.CreatedAt = l.clock.now().Add(-time.Hour) }))
	l.wantList(justonce.Filter{Tenant: "acme"}, "9", "10", "a", "B", "c", "b", "old")
}

func listWithoutBodies(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	l.mustBegin(op)
	full(op, l.clock.now())
	l.mustUpdate(op, fullEntry(l.clock.now()))
	page := l.mustList(justonce.Filter{Tenant: "acme"})
	l.want("the page", page.Operations, []*justonce.Operation{recorded(op, 2)})
}

func listFilters(l *ledger) {
	now := l.clock.now()
	add := func(key string, age time.Duration, edit func(*justonce.Operation)) {
		op := l.newOp(key)
		edit(op)
		op.CreatedAt = now.Add(-age)
		l.mustBegin(op)
		edit(op)
		l.mustUpdate(op)
	}
	add("a", 1, func(op *justonce.Operation) { op.State, op.Reference = justonce.Succeeded, "r1" })
	add("b", 2, func(op *justonce.Operation) { op.State, op.Tool = justonce.Failed, "mail" })
	add("c", 3, func(op *justonce.Operation) { op.State, op.Scope, op.Identity = justonce.Review, "account-2", "i-c" })
	add("d", 4, func(op *justonce.Operation) { op.RunID, op.Reference = "run-2", "r1" })
	add("e", 5, func(op *justonce.Operation) { op.Tenant, op.Reference = "globex", "r1" })
	add("f", 6, func(op *justonce.Operation) { op.State, op.Tool, op.RunID = justonce.Succeeded, "mail", "run-2" })
	for _, c := range []struct {
		filter justonce.Filter
		want   []string
	}{
		{justonce.Filter{}, []string{"a", "b", "c", "d", "f"}},
		{justonce.Filter{States: []justonce.State{}}, []string{"a", "b", "c", "d", "f"}},
		{justonce.Filter{States: []justonce.State{justonce.Succeeded}}, []string{"a", "f"}},
		{justonce.Filter{States: []justonce.State{justonce.Failed, justonce.Review}}, []string{"b", "c"}},
		{justonce.Filter{States: []justonce.State{"other"}}, nil},
		{justonce.Filter{Tool: "mail"}, []string{"b", "f"}},
		{justonce.Filter{Tool: "MAIL"}, nil},
		{justonce.Filter{Tool: "m%"}, nil},
		{justonce.Filter{Scope: "account-2"}, []string{"c"}},
		{justonce.Filter{RunID: "run-2"}, []string{"d", "f"}},
		{justonce.Filter{Reference: "r1"}, []string{"a", "d"}},
		{justonce.Filter{Identity: "i-c"}, []string{"c"}},
		{justonce.Filter{Since: now.Add(-3)}, []string{"a", "b", "c"}},
		{justonce.Filter{Until: now.Add(-3)}, []string{"d", "f"}},
		{justonce.Filter{Since: now.Add(-4), Until: now.Add(-2)}, []string{"c", "d"}},
		{justonce.Filter{Since: now.Add(-2), Until: now.Add(-4)}, nil},
		{justonce.Filter{Since: now.Add(-3).In(time.FixedZone("", 5*3600))}, []string{"a", "b", "c"}},
		{justonce.Filter{States: []justonce.State{justonce.Succeeded}, Tool: "mail", RunID: "run-2"}, []string{"f"}},
		{justonce.Filter{Tool: "mail", Scope: "account-2"}, nil},
	} {
		c.filter.Tenant = "acme"
		l.wantList(c.filter, c.want...)
	}
	l.wantList(justonce.Filter{Tenant: "globex", Reference: "r1"}, "e")
}

func listPages(l *ledger) {
	want := []string{}
	for i := range 6 {
		key := fmt.Sprint("k", i)
		l.mustBegin(l.newOp(key, func(op *justonce.Operation) {
			op.CreatedAt = op.CreatedAt.Add(time.Duration(i / 2)) // pages end between equal times
		}))
		want = append(want, key)
	}
	slices.Reverse(want)
	for limit := 1; limit <= 7; limit++ {
		pages := [][]string{}
		for chunk := range slices.Chunk(want, limit) {
			pages = append(pages, chunk)
		}
		l.want(fmt.Sprintf("the pages of %d", limit), l.mustListAll(justonce.Filter{Tenant: "acme", Limit: limit}), pages)
	}
}

func listPagesOfFilter(l *ledger) {
	for i := range 12 {
		l.mustBegin(l.newOp(fmt.Sprintf("k%02d", i), func(op *justonce.Operation) {
			op.CreatedAt = op.CreatedAt.Add(time.Duration(i))
			op.Tool = []string{"charge", "mail", "ticket"}[i%3]
			op.Tenant = []string{"acme", "acme", "acme", "globex"}[i%4]
		}))
	}
	l.want("the pages", l.mustListAll(justonce.Filter{Tenant: "acme", Tool: "mail", Limit: 2}), [][]string{{"k10", "k04"}, {"k01"}})
	l.want("the pages", l.mustListAll(justonce.Filter{Tenant: "globex", Limit: 2}), [][]string{{"k11", "k07"}, {"k03"}})
}

func listCursorIsStable(l *ledger) {
	for i := range 4 {
		l.mustBegin(l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) { op.CreatedAt = op.CreatedAt.Add(time.Duration(i)) }))
	}
	f := justonce.Filter{Tenant: "acme", Limit: 2}
	first := l.mustList(f)
	l.want("the first page", keysOf(first.Operations), []string{"k3", "k2"})

	l.clock.advance(time.Second)
	newer, between := l.newOp("newer"), l.newOp("between")
	between.CreatedAt = first.Operations[1].CreatedAt // as old as the last listed, but
	between.Key = "k2-"                               // before it in the order
	l.mustBegin(newer)
	l.mustBegin(between)
	changed := l.mustGet(first.Operations[1].Ref)
	l.mustUpdate(changed) // an update moves nothing

	f.Cursor = first.Next
	l.wantList(f, "k1", "k0")
	l.wantList(f, "k1", "k0") // a cursor can be used again
}

func listDefaultLimit(l *ledger) {
	for i := range 52 {
		l.mustBegin(l.newOp(fmt.Sprint("k", i)))
	}
	page := l.mustList(justonce.Filter{Tenant: "acme"})
	if len(page.Operations) != 50 || page.Next == "" {
		l.t.Errorf("List without a limit returned %d operations and cursor %q, want 50 and one", len(page.Operations), page.Next)
	}
	l.wantList(justonce.Filter{Tenant: "acme", Cursor: page.Next}, "k1", "k0")
	if page := l.mustList(justonce.Filter{Tenant: "acme", Limit: 1000}); len(page.Operations) != 52 || page.Next != "" {
		l.t.Errorf("List with limit 1000 returned %d operations and cursor %q, want 52 and none", len(page.Operations), page.Next)
	}
}

func listUnknownCursor(l *ledger) {
	l.mustBegin(l.newOp("k"))
	for _, cursor := range []string{"x", "k", " ", "%", "'", "ünknown", "////", "-1", base64.RawURLEncoding.EncodeToString([]byte("unknown"))} {
		page, err := l.List(l.ctx, justonce.Filter{Tenant: "acme", Cursor: cursor})
		l.wantErr(fmt.Sprintf("List with cursor %q", cursor), err, justonce.ErrInvalid)
		if err != nil && page != nil {
			l.t.Errorf("List with cursor %q returned a page with its error", cursor)
		}
	}
}
