package main

import "syscall"

// dieWithParent: killed with SIGKILL, we cannot end the server ourselves.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
