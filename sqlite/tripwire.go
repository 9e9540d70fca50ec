package sqlite

import (
	"crypto/rand"
	"errors"

	"zombiezen.com/go/sqlite"
)

// A tripwire is a virtual table without rows. SQLite tells it of the end of each
// transaction in which it was written, and so the guard hears of a rollback that
// nobody asked it for, while the statement that caused it still runs.
type tripwire struct{ guard *guard }

var (
	_ sqlite.WritableVTable    = tripwire{}
	_ sqlite.TransactionVTable = tripwire{}
)

// stretch makes the tripwire of g and returns the statement that arms it until
// the end of the transaction. Nobody else can name it.
func (g *guard) stretch() (arm string, err error) {
	name := "justonce_" + rand.Text()
	err = g.conn.SetModule(name, &sqlite.Module{
		Connect: func(*sqlite.Conn, *sqlite.VTableConnectOptions) (sqlite.VTable, *sqlite.VTableConfig, error) {
			return tripwire{g}, &sqlite.VTableConfig{Declaration: "CREATE TABLE tripwire (x)"}, nil
		},
	})
	return "INSERT INTO " + name + " VALUES (NULL)", err
}

func (t tripwire) Rollback() error {
	t.guard.rolledBack()
	return nil
}

func (tripwire) Begin() error                                    { return nil }
func (tripwire) Sync() error                                     { return nil }
func (tripwire) Commit() error                                   { return nil }
func (tripwire) Update(sqlite.VTableUpdateParams) (int64, error) { return 1, nil }
func (tripwire) DeleteRow(sqlite.Value) error                    { return nil }
func (tripwire) Disconnect() error                               { return nil }
func (tripwire) Destroy() error                                  { return nil }

func (tripwire) BestIndex(*sqlite.IndexInputs) (*sqlite.IndexOutputs, error) {
	return &sqlite.IndexOutputs{}, nil
}

func (tripwire) Open() (sqlite.VTableCursor, error) {
	return nil, errors.New("a tripwire cannot be read")
}
