package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	srv := server(t)
	newer := openNew(t, postgres.Options{}).Schema()
	conn := connect(t)
	for _, q := range []string{
		"INSERT INTO " + pgx.Identifier{newer, "migration"}.Sanitize() + " (version) VALUES (99)",
		"CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0",
		"CREATE ROLE reader LOGIN",
	} {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ dsn, schema, want string }{
		{"nonsense", "", "a URL such as postgres://"},
		{srv.URL("postgres", "pgbouncer=maybe"), "", "must be true or false"},
		{"postgres://127.0.0.1:1/postgres", "", "connect"},
		{srv.URL("nowhere"), "", "does not exist"},
		{srv.URL("postgres"), newer, fmt.Sprintf("has version 99 and this program knows up to %d", postgres.SchemaVersion)},
		{srv.URL("latin"), "", "one with UTF8 is needed"},
		{srv.URL("postgres", "user=reader"), newSchema(), "run migrate once as the owner"},
	} {
		s, err := postgres.Open(t.Context(), tt.dsn, &postgres.Options{Schema: tt.schema})
		if err == nil {
			s.Close()
			t.Errorf("Open(%q) is no error, want %q", tt.dsn, tt.want)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("Open(%q): %v, want ErrUnavailable and %q", tt.dsn, err, tt.want)
		}
	}
}

// No error tells the password.
func TestErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://ann:s3cret@127.0.0.1:1/postgres", "postgres://ann:s3cret@127.0.0.1:bad/postgres",
		"host=127.0.0.1 port=1 user=ann password=s3cret", "host=127.0.0.1 port=x password=s3cret",
	} {
		_, err := postgres.Open(t.Context(), dsn, nil)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open: %v", err)
		}
	}
}

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	dsn, schema := server(t).URL("postgres"), newSchema()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := postgres.Open(context.Background(), dsn, &postgres.Options{Schema: schema})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	dsn, schema := server(t).URL("postgres"), newSchema()
	for _, want := range []int{0, postgres.SchemaVersion} {
		if got, err := postgres.Migrate(t.Context(), dsn, &postgres.Options{Schema: schema}); err != nil || got != want {
			t.Errorf("Migrate = %d, %v, want %d", got, err, want)
		}
	}
	open(t, dsn, &postgres.Options{Schema: schema})
}

// A role that may only use the tables needs no more than that.
func TestOpenWithoutPrivileges(t *testing.T) {
	t.Parallel()
	srv, schema := server(t), newSchema()
	if _, err := postgres.Migrate(t.Context(), srv.URL("postgres"), &postgres.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	for _, q := range []string{
		"CREATE ROLE gateway LOGIN", "GRANT USAGE ON SCHEMA " + quoted + " TO gateway",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + quoted + " TO gateway",
	} {
		if _, err := connect(t).Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, srv.URL("postgres", "user=gateway"), &postgres.Options{Schema: schema})
	firstCall(t.Context(), t, s, "k")
	if _, err := s.Stats(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenExisting(t *testing.T) {
	t.Parallel()
	dsn, o := server(t).URL("postgres"), postgres.Options{Schema: newSchema(), Existing: true}
	if s, err := postgres.Open(t.Context(), dsn, &o); err == nil {
		s.Close()
		t.Error("Open made a ledger")
	} else if !errors.Is(err, justonce.ErrUnavailable) || !strings.Contains(err.Error(), "there is no ledger") {
		t.Errorf("Open: %v", err)
	}
	if from, err := postgres.Migrate(t.Context(), dsn, &o); err != nil || from != 0 {
		t.Errorf("Migrate: from %d, %v; Open left something behind", from, err)
	}
	open(t, dsn, &o)
}
