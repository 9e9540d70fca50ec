package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An effectServer is an MCP server that repeats what it is asked to, and a way
// to count its work in the thing it works on.
type effectServer struct {
	name      string
	tool      string
	identity  string // JSON Pointer into the arguments
	command   command
	arguments func(i int) string // of intent i
	effects   func(i int) int    // of intent i
}

// effectServers are started against things of their own.
func effectServers() map[string]func(*testing.T) effectServer {
	return map[string]func(*testing.T) effectServer{
		"git": gitCommits, "filesystem": fileEdits, "postgres": rowInserts, "mail": mailsSent,
	}
}

// gitCommits: an empty commit for each intent, named in its message.
func gitCommits(t *testing.T) effectServer {
	t.Helper()
	dir := resolved(t)
	repo := filepath.Join(dir, "repo")
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", repo}, args...)...)
		cmd.Env = append(os.Environ(), gitIdentity(dir)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if err := os.Mkdir(repo, 0o700); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "start")
	return effectServer{
		name: "git", tool: "git_commit", identity: "/message", command: gitServer(t, dir),
		arguments: func(i int) string {
			return fmt.Sprintf(`{"path":%q,"message":"intent-%d","allowEmpty":true}`, repo, i)
		},
		effects: func(i int) (n int) {
			for line := range strings.Lines(git("log", "--format=%s")) {
				if strings.TrimSpace(line) == fmt.Sprintf("intent-%d", i) {
					n++
				}
			}
			return n
		},
	}
}

// fileEdits: a file for each intent that holds 1; the edit makes it 11, twice 111.
func fileEdits(t *testing.T) effectServer {
	t.Helper()
	dir := resolved(t)
	file := func(i int) string { return filepath.Join(dir, fmt.Sprintf("intent-%d.txt", i)) }
	return effectServer{
		name: "filesystem", tool: "edit_file", identity: "/path", command: filesystemServer(t, dir),
		arguments: func(i int) string {
			f, err := os.OpenFile(file(i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			switch {
			case err == nil:
				f.WriteString("1")
				f.Close()
			case !errors.Is(err, os.ErrExist):
				t.Fatal(err)
			}
			return fmt.Sprintf(`{"path":%q,"edits":[{"oldText":"1","newText":"11"}]}`, file(i))
		},
		effects: func(i int) int {
			b, err := os.ReadFile(file(i))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			return max(0, len(b)-1)
		},
	}
}

// rowInserts: a row for each intent.
func rowInserts(t *testing.T) effectServer {
	t.Helper()
	program(t, "JUSTONCE_MCP_NODE") // before a database is made
	db := startPostgres(t)
	db.query(t, `CREATE TABLE effects (intent int)`)
	return effectServer{
		name: "postgres", tool: "insert", identity: "/data/intent",
		command:   nodeScript(t, "enhanced-postgres-mcp-server/dist/index.js", db.url),
		arguments: func(i int) string { return fmt.Sprintf(`{"table":"effects","data":{"intent":%d}}`, i) },
		effects: func(i int) int {
			return db.number(t, fmt.Sprintf(`SELECT count(*) FROM effects WHERE intent = %d`, i))
		},
	}
}

// mailsSent: a mail for each intent, into Mailpit.
func mailsSent(t *testing.T) effectServer {
	t.Helper()
	smtp, _, count := mailpit(t)
	host, port, _ := strings.Cut(smtp, ":")
	c := nodeScript(t, "mcp-mail-server/dist/index.js")
	c.env = []string{"SMTP_HOST=" + host, "SMTP_PORT=" + port, "SMTP_SECURE=false", "IMAP_HOST=" + host, "IMAP_PORT=1",
		"IMAP_SECURE=false", "EMAIL_USER=ann@example.com", "EMAIL_PASS=secret"}
	subject := func(i int) string { return fmt.Sprintf("intent-%04d", i) } // none is part of another
	return effectServer{
		name: "mail", tool: "send_email", identity: "/subject", command: c,
		arguments: func(i int) string {
			return fmt.Sprintf(`{"to":"bob@example.com","subject":%q,"text":"thank you"}`, subject(i))
		},
		effects: func(i int) int { return count(subject(i)) },
	}
}
