package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/justonce-dev/justonce/internal/packed"
	"github.com/justonce-dev/justonce/internal/recent"
)

// Prefix returns the prefix of s.
func (s *Store) Prefix() string { return s.o.Prefix }

// Channel returns the name of the channel on which s publishes.
func (s *Store) Channel() string { return s.notifier.channel }

// Look asks the server now what is otherwise asked every few seconds.
func (s *Store) Look() { s.look(context.Background()) }

// Forget empties what s remembers to have seen.
func (s *Store) Forget() { s.seen = recent.New() }

// Waiting returns how many writes wait to be sent with others.
func (s *Store) Waiting() (begins, updates int) {
	n := func(g *gatherer) int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting)
	}
	return n(&s.begins), n(&s.updates)
}

// Underway returns how many groups of writes are under way.
func (s *Store) Underway() int {
	n := 0
	for _, g := range []*gatherer{&s.begins, &s.updates} {
		g.mu.Lock()
		n += g.underway
		g.mu.Unlock()
	}
	return n
}

// OpKey returns the name of the key under which an operation is.
func (s *Store) OpKey(tenant, key string) string { return s.opKey(keyHash(tenant, key)) }

// IdentityIndex and ReferenceIndex return the names of keys, behind the prefix.
func IdentityIndex(tenant, identity string) string {
	h := identityHash(tenant, identity)
	return "id:" + string(h[:])
}

func ReferenceIndex(tenant, reference string) string {
	h := referenceHash(tenant, reference)
	return "ref:" + string(h[:])
}

// Damage puts something else in the place of an index, and returns a function
// that undoes it.
func (s *Store) Damage(tb testing.TB, index string) (repair func()) {
	tb.Helper()
	key, saved, b := s.at+index, s.at+"saved", s.client.B
	do := func(cmds ...rueidis.Completed) {
		tb.Helper()
		for _, cmd := range cmds {
			if err := s.client.Do(context.Background(), cmd).Error(); err != nil {
				tb.Fatal(err)
			}
		}
	}
	do(b().Copy().Source(key).Destination(saved).Build(), b().Del().Key(key).Build(), b().Rpush().Key(key).Element("damage").Build())
	return func() {
		tb.Helper()
		do(b().Del().Key(key).Build(), b().Copy().Source(saved).Destination(key).Build(), b().Del().Key(saved).Build())
	}
}

// ServerTime returns the time that claims are decided by.
func (s *Store) ServerTime(tb testing.TB) time.Time {
	tb.Helper()
	v, err := strs(s.read(context.Background(), scriptStats, ""))
	if err != nil {
		tb.Fatal(err)
	}
	return packed.TimeOf(getTime(v[1]), packed.NoTime)
}

// Problems returns in what rows and indexes disagree, while nobody writes.
func (s *Store) Problems(tb testing.TB) (problems []string) {
	tb.Helper()
	ctx := context.Background()
	must := func(v []string, err error) []string {
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
	want, tombstones := map[string]bool{}, 0
	var others []string
	for _, key := range must(s.client.Do(ctx, s.client.B().Keys().Pattern(strings.ReplaceAll(s.at, "[", `\[`)+"*").Build()).AsStrSlice()) {
		name := strings.TrimPrefix(key, s.at)
		switch {
		case strings.HasPrefix(name, "op:"):
			got, err := s.client.Do(ctx, s.client.B().Hget().Key(key).Field("r").Build()).ToString()
			if err != nil {
				tb.Fatal(err)
			}
			op, _, err := decodeRow(got)
			if err != nil {
				problems = append(problems, err.Error())
				continue
			}
			var r row
			if err := r.encode(op, op.Version, nil); err != nil {
				tb.Fatal(err)
			}
			if s.opKey(r.hash) != key {
				problems = append(problems, fmt.Sprintf("%v is stored as another", op.Ref))
			}
			h, h8 := string(r.hash[:]), string(r.head[offTool:offTool+8])
			want["list:"+op.Tenant+" "+r.name()] = true
			if !op.State.Ended() || stateCodes[op.State] == 7 {
				want["watch "+string(r.head[offState:offState+1])+r.name()+op.Tenant] = true
			}
			if op.State.Open() && !op.Due.IsZero() {
				want["due "+string(r.head[offDue:offDue+8])+string(r.head[offCreated:offCreated+8])+string(r.head[offLease:offLease+8])+h8+h] = true
			}
			switch purged := got[offPurged] != 0; {
			case purged:
				tombstones++
			case op.State.Ended():
				want["ended "+string(r.head[offUpdated:offUpdated+8])+h] = true
			}
			if op.Reference != "" {
				want["ref:"+string(r.head[offRef:offRef+16])+" "+h8+h] = true
			}
			if op.Identity != "" {
				want["id:"+string(r.head[offIdent:offIdent+16])+" "+h] = true
			}
		case name != "ledger" && name != "tombstones" && name != "taken":
			others = append(others, name)
		}
	}
	for _, name := range others {
		var members []string
		if strings.HasPrefix(name, "id:") {
			got, err := s.client.Do(ctx, s.client.B().Get().Key(s.at+name).Build()).ToString()
			members = must([]string{got}, err)
		} else {
			members = must(s.client.Do(ctx, s.client.B().Zrange().Key(s.at+name).Min("0").Max("-1").Build()).AsStrSlice())
		}
		for _, member := range members {
			if entry := name + " " + member; !want[entry] {
				problems = append(problems, fmt.Sprintf("%q leads nowhere", entry))
			} else {
				delete(want, entry)
			}
		}
	}
	for entry := range want {
		problems = append(problems, fmt.Sprintf("%q is missing", entry))
	}
	n, err := s.client.Do(ctx, s.client.B().Get().Key(s.at+"tombstones").Build()).AsInt64()
	if err != nil {
		n = 0 // there were none
	}
	if int(n) != tombstones {
		problems = append(problems, fmt.Sprintf("%d tombstones are counted, and there are %d", n, tombstones))
	}
	return problems
}

// ScriptTime returns what scripts make of an answer to TIME.
func (s *Store) ScriptTime(tb testing.TB, sec, usec int64) time.Time {
	tb.Helper()
	sc := plainScript(strings.Replace(scriptCommon, "call('TIME')", "{ARGV[2], ARGV[3]}", 1) + "local _, t = clock() return t")
	m, err := s.read(context.Background(), sc, fmt.Sprint(sec), fmt.Sprint(usec))
	if err != nil {
		tb.Fatal(err)
	}
	t, err := m.ToString()
	if err != nil {
		tb.Fatal(err)
	}
	return packed.TimeOf(getTime(t), packed.NoTime)
}
