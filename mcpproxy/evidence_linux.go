package mcpproxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// A filer is an open file or connection.
type filer interface {
	SyscallConn() (syscall.RawConn, error)
}

// unread asks the kernel: how much of a pipe is unread, how much of a socket's
// output was not taken by the other end (unix domain) or not acknowledged by its
// kernel (TCP).
func unread(f filer) (n int, exact, gone, known bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false, false, false
	}
	_, socket := f.(net.Conn)
	_ = raw.Control(func(fd uintptr) {
		var st unix.Stat_t
		if unix.Fstat(int(fd), &st) != nil {
			return
		}
		request := uint(unix.TIOCINQ) // FIONREAD
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFIFO:
			exact = true
		case unix.S_IFSOCK:
			socket = true
			request = unix.TIOCOUTQ // SIOCOUTQ
		default:
			return // a file or a terminal
		}
		if n, err = unix.IoctlGetInt(int(fd), request); err != nil {
			return
		}
		known = true
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, err := unix.Poll(p, 0); err == nil && p[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			gone = true
		}
	})
	return n, exact && !socket, gone, known
}
