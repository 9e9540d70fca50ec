package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/postgres"
	"github.com/justonce-dev/justonce/storetest"
)

func TestStore(t *testing.T) {
	conform(t, server(t).URL("postgres"), postgres.Options{MaxConns: 4})
}

// TestStoreBounced is the same where every transaction may have another
// session.
func TestStoreBounced(t *testing.T) {
	pgtest.SkipBouncer(t)
	conform(t, server(t).Bounce(t, "postgres", 5), postgres.Options{MaxConns: 4})
}

// TestStoreInPool is the same on a pool of the application, with its settings.
func TestStoreInPool(t *testing.T) {
	config, err := pgxpool.ParseConfig(server(t).URL("postgres", "default_transaction_isolation=serializable", "synchronous_commit=off"))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conformWith(t, func(ctx context.Context, o *postgres.Options) (*postgres.Store, error) {
		return postgres.New(ctx, pool, o)
	}, postgres.Options{})
}

func conform(t *testing.T, dsn string, o postgres.Options) {
	conformWith(t, func(ctx context.Context, o *postgres.Options) (*postgres.Store, error) {
		return postgres.Open(ctx, dsn, o)
	}, o)
}

// conformWith runs the suite. All ledgers are schemas of one database.
func conformWith(t *testing.T, new func(context.Context, *postgres.Options) (*postgres.Store, error), o postgres.Options) {
	var schemas sync.Map // of the stores that are open
	open := func(t *testing.T, schema string, now func() time.Time) justonce.Store {
		o := o
		o.Schema, o.Now = schema, now
		s, err := new(t.Context(), &o)
		if err != nil {
			t.Fatal(err)
		}
		schemas.Store(s, schema)
		return s
	}
	storetest.Run(t, func(t *testing.T, now func() time.Time) justonce.Store {
		return open(t, newSchema(), now)
	}, storetest.Features{
		CutNews: func(t *testing.T, s justonce.Store) {
			for _, pid := range listeners(t, s.(*postgres.Store)) {
				if _, err := connect(t).Exec(t.Context(), `SELECT pg_terminate_backend($1, 5000)`, pid); err != nil {
					t.Fatal(err)
				}
			}
		},
		Reopen: func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store {
			schema, _ := schemas.Load(s)
			return open(t, schema.(string), now)
		},
		Durable: true,
		Shared:  true,
		News:    !strings.Contains(t.Name(), "Bounced"),
	})
}
