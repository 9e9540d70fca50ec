//go:build !linux

package mcpproxy

import "syscall"

// A filer is an open file or connection.
type filer interface {
	SyscallConn() (syscall.RawConn, error)
}

// unread knows of no way to ask this system.
func unread(filer) (n int, exact, gone, known bool) { return 0, false, false, false }
