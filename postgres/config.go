package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lockTimeout is for how long a row or key is waited for that a transaction of
// somebody else holds: those of the store are over in milliseconds.
const lockTimeout = "1000" // ms

// bouncerParameter of a connection string sets TransactionPooling.
const bouncerParameter = "pgbouncer"

// poolConfig reads dsn. It may set o.TransactionPooling.
func poolConfig(dsn string, o *Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w; a URL such as postgres://user@host/database is needed", err)
	}
	params := config.ConnConfig.RuntimeParams
	if v, ok := params[bouncerParameter]; ok {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: must be true or false", bouncerParameter, v)
		}
		o.TransactionPooling = o.TransactionPooling || on
		delete(params, bouncerParameter)
	}
	switch {
	case o.MaxConns > 0:
		config.MaxConns = int32(o.MaxConns)
	case !strings.Contains(dsn, "pool_max_conns"):
		config.MaxConns = DefaultMaxConns
	}
	if o.TransactionPooling {
		return config, nil // it knows few parameters, and keeps no session
	}
	set := func(name, value string) {
		if _, ok := params[name]; !ok {
			params[name] = value
		}
	}
	for _, p := range planning {
		set(p[0], p[1])
	}
	set("application_name", "justonce")
	set("plan_cache_mode", "force_generic_plan")
	set("lock_timeout", lockTimeout)
	set("default_transaction_isolation", "read committed")
	set("statement_timeout", milliseconds(o.Timeout))
	set("idle_in_transaction_session_timeout", milliseconds(2*o.Timeout))
	config.AfterConnect = durable
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// durable makes sure that commits are waited for, whatever the default of the
// database is.
func durable(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
	return err
}

// newStatements returns the statements for a schema.
func newStatements(schema string) statements {
	h := sum('s', "", schema)
	return statements{schema: pgx.Identifier{schema}.Sanitize(), tag: fmt.Sprintf("%x", h[:4])}
}
