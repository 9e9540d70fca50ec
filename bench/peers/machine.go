package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// measured are the modules whose versions matter, by the contestants that use
// them.
var measured = []struct {
	module string
	by     []string // how their names begin
}{
	{"github.com/dbos-inc/dbos-transact-golang", []string{"dbos"}},
	{"github.com/jackc/pgx/v5", []string{"floor", "pgx", "justonce-pg", "dbos-pg", "river"}},
	{"github.com/redis/rueidis", []string{"justonce-redis", "redis"}},
	{"github.com/restatedev/sdk-go", []string{"restate"}},
	{"github.com/riverqueue/river", []string{"river"}},
	{"go.temporal.io/sdk", []string{"temporal"}},
	{"modernc.org/sqlite", []string{"justonce-sqlite", "dbos-sqlite"}},
	{"zombiezen.com/go/sqlite", []string{"justonce-sqlite"}},
}

// modules returns the versions of the modules that were measured.
func modules(t *tournament) (all []string) {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return nil
	}
	for _, m := range measured {
		i := slices.IndexFunc(info.Deps, func(d *debug.Module) bool { return d.Path == m.module })
		if i >= 0 && slices.ContainsFunc(t.players(), named(m.by...)) {
			all = append(all, m.module+" "+info.Deps[i].Version)
		}
	}
	return all
}

// machine tells on what is measured, the disk below dir included.
func machine(dir string) string {
	model := runtime.GOARCH
	for line := range lines("/proc/cpuinfo") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	memory := ""
	for line := range lines("/proc/meminfo") {
		var kB int64
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kB); err == nil {
			memory = fmt.Sprintf(", %d GiB", (kB+1<<19)>>20)
		}
	}
	return fmt.Sprintf("%d × %s%s, %s, fdatasync of a page %.2f ms (median), %s", runtime.NumCPU(), model, memory, filesystem(dir), syncTime(dir).Seconds()*1000, runtime.Version())
}

func lines(path string) func(func(string) bool) {
	b, _ := os.ReadFile(path)
	return strings.Lines(string(b))
}

// filesystem returns the type of the one that dir is on.
func filesystem(dir string) string {
	best, kind := "", "an unknown filesystem"
	for line := range lines("/proc/self/mounts") {
		f := strings.Fields(line)
		inside := len(f) > 2 && (f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/"))
		if inside && len(f[1]) >= len(best) {
			best, kind = f[1], f[2]
		}
	}
	return kind
}

// syncTime returns how long the disk takes to make a page durable. On a
// filesystem in memory it is next to nothing, and so is what durability costs.
func syncTime(dir string) time.Duration {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	var times []time.Duration
	for range 300 {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
