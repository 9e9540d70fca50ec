package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A command starts a program with more environment.
type command struct {
	args []string
	env  []string
}

// through puts justonce mcp in front of a server. The tests say with flags what
// it needs to know: --store, --name, --config.
func (c command) through(flags ...string) command {
	args := append([]string{binary, "mcp"}, flags...)
	return command{append(append(args, "--"), c.args...), c.env}
}

// lossy puts lossy-pipe in front of a server: see there for what dir holds.
func (c command) lossy(t testing.TB, dir string) command {
	t.Helper()
	return command{append([]string{built(t, "lossy-pipe"), "-dir", dir, "--"}, c.args...), c.env}
}

// built builds a program of testdata/mcp once and returns its path.
func built(t testing.TB, name string) string {
	t.Helper()
	b, _ := builds.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		exe := filepath.Join(filepath.Dir(binary), name)
		out, err := exec.Command("go", "build", "-o", exe, "./testdata/mcp/"+name).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
		return exe, nil
	}))
	exe, err := b.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

var builds sync.Map // by name

// nodeScript runs a file of the installed Node packages.
func nodeScript(t testing.TB, path string, args ...string) command {
	t.Helper()
	node, modules := program(t, "JUSTONCE_MCP_NODE"), program(t, "JUSTONCE_MCP_MODULES")
	return command{args: append([]string{node, filepath.Join(modules, path)}, args...)}
}

func everythingServer(t testing.TB, args ...string) command {
	t.Helper()
	return nodeScript(t, "@modelcontextprotocol/server-everything/dist/index.js", append(args, "stdio")...)
}

func memoryServer(t testing.TB) command {
	t.Helper()
	c := nodeScript(t, "@modelcontextprotocol/server-memory/dist/index.js")
	c.env = []string{"MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.jsonl")}
	return c
}

func filesystemServer(t testing.TB, dir string) command {
	t.Helper()
	return nodeScript(t, "@modelcontextprotocol/server-filesystem/dist/index.js", dir)
}

func gitServer(t testing.TB, dir string) command {
	t.Helper()
	c := nodeScript(t, "@cyanheads/git-mcp-server/dist/index.js")
	c.env = append(gitIdentity(dir), "GIT_BASE_DIR="+dir, "MCP_TRANSPORT_TYPE=stdio", "LOGS_DIR="+filepath.Join(dir, "logs"))
	return c
}

// gitIdentity keeps git away from the configuration of whoever runs the test.
func gitIdentity(home string) []string {
	return []string{"HOME=" + home, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com"}
}

// resolved is a new folder without symbolic links in its path, which
// server-filesystem compares.
func resolved(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
