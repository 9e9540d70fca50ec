package sqlite

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// Filesystems shared between machines, by the magic number of statfs(2). WAL
// needs memory shared between all users of the file, and locks that work.
var networkFilesystems = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB",
	0x5346414f: "AFS",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
}

func checkFilesystem(path string) error {
	var fs syscall.Statfs_t
	dir := filepath.Dir(path)
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	if name := networkFilesystems[uint32(fs.Type)]; name != "" {
		return fmt.Errorf("%s is on a network filesystem (%s), where SQLite cannot keep a ledger safe; use a local disk or the PostgreSQL store", path, name)
	}
	return nil
}
