package sqlite

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A guard decides what an application may do on the connection that it is lent:
// read everything, and write what is in the file and not the ledger's, whose
// tables have names that another might easily be given, too. SQLite asks when a
// statement is prepared. Once the transaction is gone nothing is allowed:
// statements would commit by themselves.
type guard struct {
	conn   *sqlite.Conn
	lifted bool // the ledger's own statements run
	held   bool // a transaction of the application is under way
	lost   bool // SQLite has rolled that back
}

const savepoint = "justonce"

var (
	// ledgerNames are the ledger's tables and indexes.
	ledgerNames = []string{"op", "slot", "seed", "entry", "tally", "op_created", "op_ref", "op_failed", "op_live"}
	// systemTables are those of SQLite's own that are written when others are
	// created, changed or dropped. Others give access to the bare file.
	systemTables = []string{"sqlite_master", "sqlite_temp_master", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"}
	// allowedPragmas change nothing or, the last one, nothing that outlives the
	// transaction. A full-text table asks for data_version.
	allowedPragmas = []string{"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo",
		"foreign_key_list", "foreign_key_check", "data_version", "defer_foreign_keys"}
)

// watch makes g the guard of conn.
func (g *guard) watch(conn *sqlite.Conn) error {
	*g = guard{conn: conn, lifted: true}
	// In a transaction the application cannot choose.
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA foreign_keys = ON", nil); err != nil {
		return err
	}
	return conn.SetAuthorizer(g)
}

// hold lends a transaction out.
func (g *guard) hold() { g.lifted, g.held = false, true }

// release takes it back.
func (g *guard) release() { g.lifted, g.held = true, false }

// rolledBack hears of the end of a transaction. Setting the authorizer anew has
// SQLite ask again for statements that it allowed before.
func (g *guard) rolledBack() {
	if g.held {
		g.lost = true
		g.conn.SetAuthorizer(g)
	}
}

// Authorize implements [sqlite.Authorizer].
func (g *guard) Authorize(a sqlite.Action) sqlite.AuthResult {
	if g.lifted || !g.lost && allowed(a) {
		return sqlite.AuthResultOK
	}
	return sqlite.AuthResultDeny
}

func allowed(a sqlite.Action) bool {
	switch a.Type() {
	case sqlite.OpSelect, sqlite.OpRead, sqlite.OpFunction, sqlite.OpRecursive:
		return true
	case sqlite.OpSavepoint:
		return !strings.EqualFold(a.Savepoint(), savepoint)
	case sqlite.OpPragma:
		return slices.Contains(allowedPragmas, strings.ToLower(a.Pragma()))
	case sqlite.OpInsert, sqlite.OpUpdate, sqlite.OpDelete,
		sqlite.OpCreateTable, sqlite.OpAlterTable, sqlite.OpDropTable,
		sqlite.OpCreateIndex, sqlite.OpReindex, sqlite.OpDropIndex,
		sqlite.OpCreateTrigger, sqlite.OpDropTrigger, sqlite.OpCreateView, sqlite.OpDropView:
		return isApplications(a)
	}
	return false
}

// isApplications reports whether what is written belongs to the application. What
// is temporary does not: it comes first where a name is looked up, and would
// stand in for the ledger's.
func isApplications(a sqlite.Action) bool {
	table := strings.ToLower(a.Table())
	if strings.HasPrefix(table, "sqlite_") {
		return slices.Contains(systemTables, table)
	}
	return a.Database() == "main" && !slices.Contains(ledgerNames, table) && !slices.Contains(ledgerNames, strings.ToLower(a.Index()))
}
