package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// spareMemory is what a process may hold beyond what it uses.
const spareMemory = 48 << 20

// trimMemory gives memory back that a large message took, until ctx ends: a
// proxy sits beside every agent, for days, and Go keeps what it had for minutes
// at least.
func trimMemory(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	var objects, trimmed uint64 // as they were last
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		held := samples[0].Value.Uint64() - samples[1].Value.Uint64()
		// Twice alike: nothing large is on its way. What is no longer used counts
		// as objects until it is collected.
		calm := samples[2].Value.Uint64() < objects+(8<<20)
		objects = samples[2].Value.Uint64()
		if held > spareMemory && calm && held > trimmed+(16<<20) {
			debug.FreeOSMemory()
			metrics.Read(samples)
			trimmed = samples[0].Value.Uint64() - samples[1].Value.Uint64()
			objects = samples[2].Value.Uint64()
		}
	}
}
