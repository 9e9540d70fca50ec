//go:build unix

package mcpconn

import (
	"os"
	"syscall"
)

// terminateGroup asks the child's process group to end. A group that is gone
// is no error, and there is nobody to tell of others.
func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
