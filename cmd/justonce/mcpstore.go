package main

import (
	"errors"
	"path/filepath"
	"runtime"
)

// userLedger returns where the ledger is that all agents of a user share. The
// error says that the environment does not tell.
func userLedger(env func(string) string) (string, error) {
	return ledgerIn(runtime.GOOS, env)
}

func ledgerIn(system string, env func(string) string) (string, error) {
	home := env("HOME")
	var dir string
	switch system {
	case "windows":
		dir = env("LocalAppData")
	case "darwin", "ios":
		if home != "" {
			dir = filepath.Join(home, "Library", "Application Support")
		}
	default:
		// A relative path there counts for nothing, as its specification says.
		if dir = env("XDG_STATE_HOME"); !filepath.IsAbs(dir) {
			dir = ""
			if home != "" {
				dir = filepath.Join(home, ".local", "state")
			}
		}
	}
	if dir == "" {
		return "", hint(errors.New("nothing says where a ledger of your own could be"), "set HOME (on Windows LocalAppData), or name a file with --store")
	}
	return filepath.Join(dir, "justonce", "mcp.db"), nil
}
