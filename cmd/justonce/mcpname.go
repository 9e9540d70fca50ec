package main

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// launchers are programs that run another one: the server is among their
// arguments. What they have before it is skipped; the flags that are listed
// take a value.
var launchers = map[string]struct {
	words  []string
	valued []string
}{
	"npx":    {nil, []string{"-p", "--package", "-c", "--call", "--registry"}},
	"pnpx":   {nil, []string{"-p", "--package"}},
	"bunx":   {nil, []string{"-p", "--package"}},
	"uvx":    {nil, []string{"--from", "--with", "--python", "-p", "--index-url", "--directory"}},
	"pipx":   {[]string{"run"}, []string{"--spec", "--python"}},
	"npm":    {[]string{"exec", "x", "run", "start"}, []string{"-p", "--package", "--prefix"}},
	"pnpm":   {[]string{"dlx", "exec", "run"}, []string{"--package", "--dir", "-C"}},
	"yarn":   {[]string{"dlx", "exec", "run"}, []string{"-p", "--package", "--cwd"}},
	"node":   {nil, []string{"-r", "--require", "--import", "--loader", "--env-file"}},
	"tsx":    {nil, []string{"--import", "--tsconfig"}},
	"bun":    {[]string{"run", "x"}, []string{"--cwd"}},
	"deno":   {[]string{"run", "serve"}, []string{"-c", "--config"}},
	"python": {nil, []string{"-X", "-W"}},
	"uv":     {[]string{"run", "tool"}, []string{"--directory", "--project", "--with", "--python", "-p", "--env-file"}},
	"go":     {[]string{"run"}, []string{"-C", "-tags"}},
	"java":   {nil, []string{"-cp", "-classpath"}},
	"docker": {[]string{"run", "container"}, []string{"-e", "--env", "--env-file", "-v", "--volume", "-p", "--publish",
		"--name", "--network", "--net", "-w", "--workdir", "-u", "--user", "--mount", "-l", "--label", "--entrypoint", "--platform", "-m", "--memory", "--add-host", "-h", "--hostname"}},
	"podman": {[]string{"run", "container"}, []string{"-e", "--env", "--env-file", "-v", "--volume", "-p", "--publish",
		"--name", "--network", "-w", "--workdir", "-u", "--user", "--mount", "-l", "--label", "--entrypoint", "--platform", "-m", "--memory"}},
}

// serverNameOf makes a server's name of its command: npx -y @acme/tickets@2 and
// node lib/tickets.js are tickets. It falls back to mcp.
func serverNameOf(command []string) string {
	program := stem(command[0])
	if strings.HasPrefix(program, "python") { // python3, python3.14
		program = "python"
	}
	l, ok := launchers[program]
	if !ok {
		return fit(program)
	}
	rest := command[1:]
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		switch {
		case slices.Contains(l.valued, arg):
			rest = rest[min(1, len(rest)):]
		case strings.HasPrefix(arg, "-") || slices.Contains(l.words, arg) || arg == "":
		default:
			return fit(stem(arg))
		}
	}
	return fit(program)
}

// stems that say nothing: the folder is the name.
var (
	meaningless = []string{"index", "main", "__main__", "."}
	passed      = []string{"dist", "build", "src", "bin", "out", "lib", "."}
)

// stem is the last element of a path, a package or an image, without version and
// extension.
func stem(arg string) string {
	p := strings.TrimRight(strings.ReplaceAll(filepath.ToSlash(arg), `\`, "/"), "/")
	base := path.Base(p)
	if i := strings.IndexByte(base, '@'); i > 0 {
		base = base[:i]
	}
	for _, mark := range []string{":", "=="} {
		base, _, _ = strings.Cut(base, mark)
	}
	for _, ext := range []string{".exe", ".cmd", ".bat", ".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".sh", ".rb", ".jar", ".go"} {
		base = strings.TrimSuffix(base, ext)
	}
	if slices.Contains(meaningless, base) {
		for dir := path.Dir(p); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if name := path.Base(dir); !slices.Contains(passed, name) {
				return strings.TrimPrefix(name, "@")
			}
		}
	}
	return strings.TrimPrefix(base, "@")
}

// fit makes a name that a server may have.
func fit(name string) string {
	name = strings.Map(func(r rune) rune {
		if 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r) {
			return r
		}
		return '-'
	}, name)
	name = strings.TrimLeft(name, "_.-")
	if len(name) > 64 {
		name = name[:64]
	}
	if name == "" {
		return "mcp"
	}
	return name
}
