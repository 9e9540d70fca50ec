package sqlite

import "os"

const (
	pageSize = 4096
	// checkpointPages is how long the log grows, in pages, before its pages
	// are moved to the database and it is written from its start again: with
	// less the database is synced too often for many callers, more gains
	// nothing.
	checkpointPages = 4096
	logSize         = checkpointPages*(pageSize+24) + 4<<20
)

// prepareLog gives the log its full size before it is needed: a commit that
// makes a file longer costs about two that write into it. What is appended are
// zeros, which SQLite takes for the end of the log. The write lock must be
// held, so that nobody writes there at the same time. Where it fails only
// speed is lost.
func (w *writer) prepareLog() {
	f, err := os.OpenFile(w.path+"-wal", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	zeros := make([]byte, 256<<10)
	for at := info.Size(); at < logSize; {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), logSize-at)], at)
		if err != nil {
			return
		}
		at += int64(n)
	}
	f.Sync()
}
