package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// What is there and cannot be read is never taken for absent.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"Data":     `UPDATE op SET data = '\x01'`,
		"Encoding": `UPDATE op SET data = '\xff01020304050607'`,
		"Fixed":    `UPDATE op SET fixed = '\xff'`,
		"State":    `UPDATE op SET state = 9`,
		"Result":   `UPDATE op SET log = ''`,
		"Log":      `UPDATE op SET log = '\x04ff01'`,
		"Big":      `UPDATE op SET result = -2`,
		"Key":      `UPDATE op SET key = 'another'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openNew(t, postgres.Options{})
			firstCall(t.Context(), t, s, "k")
			inSchema(t, s, damage)
			_, err := s.Get(t.Context(), justonce.Ref{Key: "k"})
			wantDamaged(t, "Get", err)
			_, err = s.Begin(t.Context(), benchOp("k", s.Now()), justonce.Entry{})
			wantDamaged(t, "Begin", err)
			begin(t, s, "other")
		})
	}
}

// One that is due and cannot be read is in nobody's way.
func TestDamagedRowIsDue(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	begin(t, s, "damaged")
	inSchema(t, s, `UPDATE op SET data = '\x01'`)
	begin(t, s, "sound")
	ops, err := s.Claim(t.Context(), justonce.Due{Limit: 2}, take)
	if err != nil || len(ops) != 1 || ops[0].Key != "sound" {
		t.Errorf("Claim: %+v, %v, want the one that can be read", ops, err)
	}
	_, err = s.Claim(t.Context(), justonce.Due{Ref: &justonce.Ref{Key: "damaged"}, Limit: 1}, take)
	wantDamaged(t, "Claim of the damaged one", err)
}

func wantDamaged(t *testing.T, call string, err error) {
	t.Helper()
	if !errors.Is(err, justonce.ErrUnavailable) || errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("%s of a damaged operation: %v, want ErrUnavailable", call, err)
	}
}

// inSchema runs a statement on the tables of s.
func inSchema(tb testing.TB, s *postgres.Store, statement string) {
	tb.Helper()
	conn := connect(tb)
	for _, q := range []string{"SET search_path = " + pgx.Identifier{s.Schema()}.Sanitize(), statement} {
		if _, err := conn.Exec(tb.Context(), q); err != nil {
			tb.Fatalf("%s: %v", q, err)
		}
	}
}

// What is acknowledged has been waited for, whatever the database's default.
func TestCommitsAreWaitedFor(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{"off": "on", "remote_apply": "remote_apply"} {
		s := open(t, server(t).URL("postgres", "synchronous_commit="+asked), &postgres.Options{Schema: newSchema()})
		if got := s.Setting(t, "synchronous_commit"); got != want {
			t.Errorf("synchronous_commit is %s where the default is %s, want %s", got, asked, want)
		}
	}
	s := openNew(t, postgres.Options{})
	tx := beginTx(t, s)
	if _, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = off"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnqueueTx(t.Context(), tx, pendingOp("k", s.Now())); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil || got != "on" {
		t.Errorf("synchronous_commit is %s, %v in the caller's transaction, want on", got, err)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	fill(300, func(n int64) { begin(t, s, benchKey(n)) })
	s.Fold()
	if n := count(t, pgx.Identifier{s.Schema(), "tally"}.Sanitize()); n != 1 {
		t.Errorf("%d rows are left, want 1", n)
	}
	if stats, err := s.Stats(t.Context()); err != nil || stats.Count[justonce.Pending] != 300 {
		t.Errorf("Stats: %+v, %v, want 300 pending", stats, err)
	}
	wantIntegrity(t, s)
}
