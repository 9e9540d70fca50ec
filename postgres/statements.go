package postgres

import (
	"fmt"
	"strings"
	"sync"
)

// dbNow is the server's clock in nanoseconds. Unlike now() it moves within a
// transaction.
const dbNow = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000`

// statements of a store, by name, with the schema filled in. Each is written
// where it is used.
type statements struct {
	schema string // quoted
	tag    string // keeps stores on one connection apart
	m      sync.Map
}

// get returns the statement that build returns, which is called once.
func (s *statements) get(name string, build func() (sql string, oids []uint32)) *statement {
	if st, ok := s.m.Load(name); ok {
		return st.(*statement)
	}
	sql, oids := build()
	st, _ := s.m.LoadOrStore(name, &statement{
		name: name + "@" + s.tag,
		sql:  strings.ReplaceAll(sql, "$schema", s.schema),
		oids: oids,
	})
	return st.(*statement)
}

// plain returns a statement with a fixed text.
func (s *statements) plain(name, sql string, oids ...uint32) *statement {
	return s.get(name, func() (string, []uint32) { return sql, oids })
}

// planning keeps the planner from scanning, hashing and sorting whole tables
// where it knows too little of them: every statement of the store finds its rows
// by an index, mostly in their order. Nothing of it needs a session.
var planning = [][2]string{
	{"enable_seqscan", "off"}, {"enable_hashjoin", "off"}, {"enable_mergejoin", "off"}, {"enable_sort", "off"}, {"jit", "off"},
}

// settings makes the settings of a session hold for the transaction under way,
// and sees that its commit is waited for.
func (s *Store) settings() query {
	return query{statement: s.st.get("settings", func() (string, []uint32) {
		var b strings.Builder
		b.WriteString("SELECT ")
		for _, p := range planning {
			fmt.Fprintf(&b, "set_config('%s', '%s', true), ", p[0], p[1])
		}
		b.WriteString(`set_config('lock_timeout', '` + lockTimeout + `', true), set_config('synchronous_commit', CASE current_setting('synchronous_commit')
			WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)`)
		return b.String(), nil
	})}
}

// alone makes queries a transaction of their own. In a session of ours they are
// one anyway; elsewhere it needs its settings.
func (s *Store) alone(c *conn, queries ...query) []query {
	if c.session {
		return queries
	}
	return append(s.begun(c, queries...), s.commit())
}

// begun starts a transaction of several round trips with queries.
func (s *Store) begun(c *conn, queries ...query) []query {
	all := []query{{statement: s.st.plain("begin", "BEGIN ISOLATION LEVEL READ COMMITTED")}}
	if !c.session {
		all = append(all, s.settings())
	}
	return append(all, queries...)
}

func (s *Store) commit() query { return query{statement: s.st.plain("commit", "COMMIT")} }
