package sqlite

import (
	"os"

	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	pageSize = 4096
	// checkpointPages is how long the log grows, in pages, before its pages
	// are moved to the database and it is written from its start again.
	checkpointPages = 4096
	frameSize       = pageSize + 24
	logSize         = checkpointPages*frameSize + 4<<20
)

// prepareLog gives the log its full size before it is needed: a commit that
// makes a file longer costs about two that write into it. What is appended are
// zeros, which SQLite takes for the end of the log. The write lock must be
// held, so that nobody writes there at the same time.
func (w *writer) prepareLog() error {
	if err := sqlitex.ExecuteTransient(w.conn, "PRAGMA wal_autocheckpoint = 4096", nil); err != nil {
		return err
	}
	f, err := os.OpenFile(w.path+"-wal", os.O_WRONLY, 0)
	if err != nil {
		return nil // only speed is lost
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() >= logSize {
		return nil
	}
	zeros := make([]byte, 256<<10)
	for at := info.Size(); at < logSize; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), logSize-at)], at); err != nil {
			return nil
		}
	}
	f.Sync()
	return nil
}

func (w *writer) checkpoint() {}
