//go:build !unix

package mcpconn

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// Without process groups and signals, the child alone can be ended.
func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }
