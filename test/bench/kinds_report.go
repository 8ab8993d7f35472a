// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// kindReport has the figures of one kind.
type kindReport struct {
	kind, machine string
	day           time.Time
	count         int

	// The rest is read from the sample. The floor sends installWrites and readyWrites for each custom resource.
	children, owners, pods     int
	installWrites, readyWrites int
	sampled                    int

	floor, operator                             installTimes
	install, rest, driftCost, restart, delete   kindCost
	idleFor                                     time.Duration
	drifts                                      []time.Duration
	driftedKind, driftedField                   string
	rss, peakRSS, restartRSS, heap, restartHeap int64
}

// describe notes what the sample shows.
func (r *kindReport) describe(s sample) {
	install, ready := leastWrites(s.writes)
	r.children, r.owners, r.pods = s.children, s.owners, s.pods
	r.installWrites, r.readyWrites, r.sampled = len(install), len(ready), len(s.writes)
}

// checkFloor returns an error if the floor was slower than the operator.
func (r *kindReport) checkFloor() error {
	var errs []error
	for _, phase := range []struct {
		name            string
		floor, operator time.Duration
	}{
		{"children applied", r.floor.applied, r.operator.applied},
		{"ready", r.floor.ready, r.operator.ready},
	} {
		if phase.floor > phase.operator {
			errs = append(errs, fmt.Errorf("%d of %s: %s: the floor was slower (%s) than the operator (%s): it is no floor",
				r.count, r.kind, phase.name, phase.floor.Round(time.Millisecond), phase.operator.Round(time.Millisecond)))
		}
	}
	return errors.Join(errs...)
}

// page returns the figures as a section of docs/benchmarks-notes.md.
func (r *kindReport) page() string {
	var page strings.Builder
	fmt.Fprintf(&page, "### %s: %s objects\n\n", r.kind, thousands(r.count))
	fmt.Fprintf(&page, "On %s, %s. Children of each object: %d; pods: %d", r.machine, r.day.Format("2 January 2006"), r.children, r.pods)
	if r.owners > 1 {
		fmt.Fprintf(&page, "; custom resources with those among the children: %d.\n", r.owners)
		page.WriteString("Requests are those of all of these custom resources together")
	}
	fmt.Fprintf(&page, ".\nThe floor sends %d requests for each object. One object alone took the operator %d.\n\n",
		r.installWrites+r.readyWrites, r.sampled)
	page.WriteString("| all objects | floor | operator | ratio |\n|---|---|---|---|\n")
	for _, row := range []struct {
		name            string
		floor, operator time.Duration
	}{
		{"children applied", r.floor.applied, r.operator.applied},
		{"pods ready", r.floor.pods, r.operator.pods},
		{"Ready in the status", r.floor.ready, r.operator.ready},
	} {
		fmt.Fprintf(&page, "| %s | %.1f s | %.1f s | %.2f |\n",
			row.name, row.floor.Seconds(), row.operator.Seconds(), float64(row.operator)/float64(row.floor))
	}
	r.writePrograms(&page)
	r.writeCosts(&page)
	mib := func(bytes int64) float64 { return float64(bytes) / mebibyte }
	page.WriteString("\n| memory | after the install | after a restart |\n|---|---|---|\n")
	fmt.Fprintf(&page, "| RSS | %.0f MiB, at most %.0f MiB | %.0f MiB |\n", mib(r.rss), mib(r.peakRSS), mib(r.restartRSS))
	fmt.Fprintf(&page, "| live objects on the heap | %.1f MiB | %.1f MiB |\n", mib(r.heap), mib(r.restartHeap))
	return page.String() + "\n"
}

// programs are the programs of an install by the names that /proc has, and the headings of their columns.
var programs = []struct{ name, heading string }{
	{"kube-apiserver", "API server"},
	{"etcd", "etcd"},
	{"kube-controller", "controller manager"},
	{"kube-scheduler", "scheduler"},
	{"kwok", "simulated nodes"},
	{"demoapp-control", "operator"},
	{ownName, "benchmark"},
}

// writePrograms writes the CPU time of each program for each object.
func (r *kindReport) writePrograms(page *strings.Builder) {
	page.WriteString("\n| CPU of an install for each object |")
	for _, program := range programs {
		fmt.Fprintf(page, " %s |", program.heading)
	}
	page.WriteString(" all |\n|---|---|" + strings.Repeat("---|", len(programs)) + "\n")
	for _, row := range []struct {
		name string
		cpu  map[string]time.Duration
	}{{"floor", r.floor.cpu}, {"operator", r.operator.cpu}} {
		fmt.Fprintf(page, "| %s |", row.name)
		all := 0.0
		for _, program := range programs {
			cell := ""
			if cpu := row.cpu[program.name]; cpu > 0 {
				each := milliseconds(cpu) / float64(r.count)
				all += each
				cell = fmt.Sprintf("%.1f ms", each)
			}
			fmt.Fprintf(page, " %s |", cell)
		}
		fmt.Fprintf(page, " %.1f ms |\n", all)
	}
}

// writeCosts writes what each phase costs for each object.
func (r *kindReport) writeCosts(page *strings.Builder) {
	page.WriteString("\n| phase | time | requests for each object | of these, of the status | events for each | operator's CPU for each |\n" +
		"|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name  string
		cost  kindCost
		count int
	}{
		{"install", r.install, r.count},
		{fmt.Sprintf("drift of %#q of a %s", r.driftedField, r.driftedKind), r.driftCost, len(r.drifts)},
		{"restart", r.restart, r.count},
		{"delete", r.delete, r.count},
	} {
		each := func(number int) float64 { return float64(number) / float64(row.count) }
		s := row.cost.sent
		fmt.Fprintf(page, "| %s | %.1f s | %.2f | %.2f | %.2f | %.1f ms |\n", row.name, row.cost.took.Seconds(),
			each(s.requests), each(s.statuses), each(s.events), milliseconds(row.cost.cpu)/float64(row.count))
	}
	s := r.rest.sent
	fmt.Fprintf(page, "| rest | %.0f s | %d in all | %d in all | %d in all | %.2f s per minute in all |\n",
		r.rest.over.Seconds(), s.requests, s.statuses, s.events, r.rest.cpu.Seconds()*float64(time.Minute)/float64(r.rest.over))
	fmt.Fprintf(page, "\nDrift was corrected within %.0f ms in the median and %.0f ms in 99 of 100 cases, of %d changes one "+
		"after another.\n",
		milliseconds(quantile(r.drifts, 0.5)), milliseconds(quantile(r.drifts, 0.99)), len(r.drifts))
}

// thousands returns a number with commas.
func thousands(number int) string {
	text := fmt.Sprint(number)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
