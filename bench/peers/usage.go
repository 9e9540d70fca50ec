package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of /proc/*/stat on Linux.
const tick = 10 * time.Millisecond

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A usage is what some processes have used and hold, their descendants
// included.
type usage struct {
	CPU time.Duration
	RSS int64 // bytes; what is shared counts for each
	PSS int64 // bytes; what is shared is divided
}

// cpuOf returns what the trees of processes have used, those that have ended
// included. It knows only Linux, and is 0 elsewhere.
func cpuOf(roots ...int) (sum time.Duration) {
	for _, s := range tree(roots) {
		sum += s.cpu
	}
	return sum
}

// usageOf is cpuOf, and what the processes hold.
func usageOf(roots ...int) (u usage) {
	for pid, s := range tree(roots) {
		u.CPU += s.cpu
		rollup, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for line := range strings.Lines(string(rollup)) {
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			kB, _ := strconv.ParseInt(f[1], 10, 64)
			switch f[0] {
			case "Rss:":
				u.RSS += kB << 10
			case "Pss:":
				u.PSS += kB << 10
			}
		}
	}
	return u
}

type stat struct {
	parent int
	cpu    time.Duration // with that of children that have ended
}

// tree returns the processes that are roots or descend from them.
func tree(roots []int) map[int]stat {
	all := map[int]stat{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		if len(f) < 15 {
			continue
		}
		var s stat
		s.parent, _ = strconv.Atoi(f[1])
		for _, v := range f[11:15] {
			n, _ := strconv.Atoi(v)
			s.cpu += time.Duration(n) * tick
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		all[pid] = s
	}
	in := map[int]stat{}
	for pid := range all {
		for at := pid; at > 1; at = all[at].parent {
			for _, root := range roots {
				if at == root {
					in[pid] = all[pid]
				}
			}
		}
	}
	return in
}
