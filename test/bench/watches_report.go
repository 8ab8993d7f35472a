// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// watchesFigures are the figures of one run. Requests are without lists and watches.
type watchesFigures struct {
	floorInstall, floorUpgrade time.Duration
	install, upgrade, delete   phaseCost
	idle, restart              phaseCost
	rss                        int64
	heap, heapOthers, heapHelm int64
	heapRestarted, heapDemoApp int64
}

// report returns the figures as a section of docs/benchmarks.md.
func (b *watchesBench) report(f watchesFigures) string {
	var page strings.Builder
	fmt.Fprintf(&page, "%d kinds with %d releases each of a chart with 3 objects, on %s, %s.\n\n", b.kinds, b.each, machine(), time.Now().Format(time.DateOnly))
	page.WriteString("| phase | requests for each release | operator's CPU | time, relative to the floor |\n|---|---|---|---|\n")
	row := func(name string, cost phaseCost, floor time.Duration) {
		ratio := ""
		if floor > 0 {
			ratio = fmt.Sprintf("%.2f", float64(cost.took)/float64(floor))
		}
		fmt.Fprintf(&page, "| %s | %.2f | %.1f ms for each | %s |\n", name, cost.requests/float64(b.size), milliseconds(cost.cpu)/float64(b.size), ratio)
	}
	row("install (C = 3)", f.install, f.floorInstall)
	row("upgrade (k = 1)", f.upgrade, f.floorUpgrade)
	row("delete (N = 3)", f.delete, 0)
	row("restart", f.restart, 0)
	fmt.Fprintf(&page, "| rest, %.0f s | %.0f in all | %.2f s per minute in all | |\n\n", b.options.idle.Seconds(), f.idle.requests,
		f.idle.cpu.Seconds()*float64(time.Minute)/float64(f.idle.took))
	mib := func(bytes int64) float64 { return float64(bytes) / mebibyte }
	fmt.Fprintf(&page, "RSS at rest: %.0f MiB.\n\n| live objects on the heap, after GC | MiB | growth |\n|---|---|---|\n", mib(f.rss))
	fmt.Fprintf(&page, "| %d releases | %.1f | |\n", b.size, mib(f.heap))
	fmt.Fprintf(&page, "| and %d Secrets and %d ConfigMaps of others | %.1f | %.1f |\n", b.options.others, b.options.others, mib(f.heapOthers), mib(f.heapOthers-f.heap))
	fmt.Fprintf(&page, "| and %d Secrets and %d ConfigMaps of others with Helm's label | %.1f | %.1f |\n", b.options.others, b.options.others,
		mib(f.heapHelm), mib(f.heapHelm-f.heapOthers))
	fmt.Fprintf(&page, "| the same after a restart | %.1f | %.1f |\n", mib(f.heapRestarted), mib(f.heapRestarted-f.heapHelm))
	fmt.Fprintf(&page, "| the same after a restart with the CRD of DemoApps | %.1f | %.1f |\n", mib(f.heapDemoApp), mib(f.heapDemoApp-f.heapRestarted))
	return page.String()
}
