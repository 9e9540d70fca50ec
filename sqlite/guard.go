package sqlite

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A guard decides what an application may do on the connection that it is lent.
// What is the ledger's it may read, no more: its tables have names that another
// table might easily be given, too. SQLite asks when a statement is prepared.
type guard struct{ lifted bool }

var (
	ledgerTables = []string{"op", "slot", "seed", "entry", "tally"}
	// ledgerPragmas would change the file for the ledger, too, or lock it.
	ledgerPragmas = []string{"application_id", "user_version", "schema_version", "writable_schema", "locking_mode", "wal_autocheckpoint"}
)

// watch makes g the guard of conn.
func (g *guard) watch(conn *sqlite.Conn) error {
	// In a transaction the application cannot choose.
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA foreign_keys = ON", nil); err != nil {
		return err
	}
	return conn.SetAuthorizer(g)
}

// Authorize implements [sqlite.Authorizer].
func (g *guard) Authorize(a sqlite.Action) sqlite.AuthResult {
	denied := false
	switch a.Type() {
	case sqlite.OpRead, sqlite.OpSelect:
	case sqlite.OpTransaction, sqlite.OpAttach:
		denied = true
	case sqlite.OpPragma:
		denied = a.PragmaArg() != "" && slices.Contains(ledgerPragmas, strings.ToLower(a.Pragma()))
	default:
		denied = slices.Contains(ledgerTables, strings.ToLower(a.Table()))
	}
	if denied && !g.lifted {
		return sqlite.AuthResultDeny
	}
	return sqlite.AuthResultOK
}
