// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

const mebibyte = 1 << 20

// writeReport writes benchmarks.md and its plots into the folder.
func writeReport(dir, machine string, o options, results []result) error {
	var page strings.Builder
	fmt.Fprintf(&page, `# Benchmarks

This page is written by `+"`make bench`"+`; do not edit it. The figures up to the section "Drift" are from one run on
%s. The sections after it are from `+"`benchmarks-notes.md`"+`, which is written by hand and has
figures of other runs, too. The control plane, the load generator and the operator share the machine. %d workers; DemoApps
with 0 replicas; %d drifted ConfigMaps in each round.

## Method

The floor is a program that sends only the requests that no operator can do without. These are 8 for an install: the
finalizer, four applies, the release Secret twice, the status. An upgrade that changes C objects takes C + 3. The floor has
as many workers as the operator and a pool of connections. It sends release Secrets as protobuf, asks for metadata-only
answers, and reads none of them. It decides nothing, renders nothing and watches nothing.

Each size has a control plane of its own. A first round warms the API server up and does not count. After that, the floor and
the operator alternate, and each round begins with the other one. What one made is removed before the other begins. Figures
are medians of the rounds, with the least and the most in parentheses. A ratio compares two times of the same round. The run
fails if the floor is slower than the operator.

`, machine, o.workers, o.driftCount)
	writeTimes(&page, results)
	writeRequests(&page, results)
	writeCosts(&page, results)
	writeDrift(&page, results)
	notes, err := os.ReadFile(filepath.Join(dir, "benchmarks-notes.md"))
	if err == nil {
		page.WriteString("\n" + string(notes))
	}
	if err := os.MkdirAll(filepath.Join(dir, "images"), 0o750); err != nil {
		return err
	}
	if err := plotTimes(filepath.Join(dir, "images", "benchmarks-times.svg"), results); err != nil {
		return err
	}
	if err := plotDrift(filepath.Join(dir, "images", "benchmarks-drift.svg"), results[len(results)-1]); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "benchmarks.md"), []byte(page.String()), 0o600)
}

// Figures of one round.
func installTime(f figures) time.Duration { return f.install }
func upgradeTime(f figures) time.Duration { return f.upgrade }

func writeTimes(page *strings.Builder, results []result) {
	page.WriteString("## Times\n\n| DemoApps | rounds | install | floor | ratio | upgrade of all | floor | ratio | delete of all | restart to caught up |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		seconds := func(contender string, of func(figures) time.Duration) string {
			return r.seconds(contender, of).text(1, " s")
		}
		fmt.Fprintf(page, "| %d | %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.size, len(r.figures[operatorName]),
			seconds(operatorName, installTime), seconds(floorName, installTime), r.ratio(operatorName, floorName, installTime).text(2, ""),
			seconds(operatorName, upgradeTime), seconds(floorName, upgradeTime), r.ratio(operatorName, floorName, upgradeTime).text(2, ""),
			seconds(operatorName, func(f figures) time.Duration { return f.delete }),
			seconds(operatorName, func(f figures) time.Duration { return f.restart }))
	}
	page.WriteString("\n![Times by number of DemoApps](images/benchmarks-times.svg)\n\n")
}

func writeRequests(page *strings.Builder, results []result) {
	page.WriteString("## Requests\n\nFor each DemoApp, with events and without lists and watches. Idle and restart are totals.\n\n" +
		"| DemoApps | install | upgrade (C = 2) | delete (N = 4) | idle | restart |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		each := func(of func(figures) float64) string { return r.each(operatorName, of).text(2, "") }
		fmt.Fprintf(page, "| %d | %s | %s | %s | %.0f in %.0f s | %s |\n", r.size,
			each(func(f figures) float64 { return f.installRequests }),
			each(func(f figures) float64 { return f.upgradeRequests }),
			each(func(f figures) float64 { return f.deleteRequests }),
			r.idle().idleRequests, r.idle().idleFor.Seconds(),
			r.of(operatorName, func(f figures) float64 { return f.restartRequests }).text(0, ""))
	}
	page.WriteString("\n")
}

// idle returns the figures of the round that observed the idle operator.
func (r result) idle() figures {
	rounds := r.figures[operatorName]
	return rounds[len(rounds)-1]
}

func writeCosts(page *strings.Builder, results []result) {
	page.WriteString("## Processor and memory of the operator\n\n" +
		"The floor's processor time is that of sending its requests, without the load generator.\n\n" +
		"| DemoApps | CPU per install | the floor's | CPU per upgrade | CPU idle, per minute | peak RSS | RSS after a restart | CPU of a restart |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		each := func(contender string, of func(figures) time.Duration) spread {
			return r.each(contender, func(f figures) float64 { return milliseconds(of(f)) })
		}
		floor := each(floorName, func(f figures) time.Duration { return f.installCPU }).median -
			each(operatorName, func(f figures) time.Duration { return f.loadCPU }).median
		idle := r.idle()
		fmt.Fprintf(page, "| %d | %s | %.1f ms | %s | %.2f s | %s | %s | %s |\n", r.size,
			each(operatorName, func(f figures) time.Duration { return f.installCPU }).text(1, " ms"), floor,
			each(operatorName, func(f figures) time.Duration { return f.upgradeCPU }).text(1, " ms"),
			idle.idleCPU.Seconds()*float64(time.Minute)/float64(idle.idleFor),
			r.of(operatorName, func(f figures) float64 { return float64(f.peakRSS) / mebibyte }).text(0, " MiB"),
			r.of(operatorName, func(f figures) float64 { return float64(f.restartRSS) / mebibyte }).text(0, " MiB"),
			r.seconds(operatorName, func(f figures) time.Duration { return f.restartCPU }).text(1, " s"))
	}
	page.WriteString("\n")
}

// The drifts of one round.
func drifts(f figures) []time.Duration          { return f.drift }
func driftsUnderLoad(f figures) []time.Duration { return f.driftUnderLoad }

func writeDrift(page *strings.Builder, results []result) {
	fmt.Fprintf(page, "## Drift\n\nFrom the answer to the change until a watch shows the correction; one at a time, all rounds together.\n\n"+
		"| DemoApps | median | p99 | worst | median while %d installs run | p99 | worst |\n|---|---|---|---|---|---|---|\n", loadSize)
	for _, r := range results {
		quiet, loaded := r.pooled(drifts), r.pooled(driftsUnderLoad)
		fmt.Fprintf(page, "| %d | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f ms |\n", r.size,
			milliseconds(quantile(quiet, 0.5)), milliseconds(quantile(quiet, 0.99)), milliseconds(quantile(quiet, 1)),
			milliseconds(quantile(loaded, 0.5)), milliseconds(quantile(loaded, 0.99)), milliseconds(quantile(loaded, 1)))
	}
	page.WriteString("\n![Drift, from change to correction](images/benchmarks-drift.svg)\n")
}

func plotTimes(path string, results []result) error {
	p := plot.New()
	p.Title.Text = "Time for all DemoApps"
	p.X.Label.Text, p.Y.Label.Text = "DemoApps", "seconds"
	p.X.Min, p.Y.Min = 0, 0
	var lines []any
	for _, series := range []struct {
		name, contender string
		of              func(figures) time.Duration
	}{
		{"install", operatorName, installTime},
		{"install, floor", floorName, installTime},
		{"upgrade", operatorName, upgradeTime},
		{"upgrade, floor", floorName, upgradeTime},
		{"delete", operatorName, func(f figures) time.Duration { return f.delete }},
	} {
		points := make(plotter.XYs, 0, len(results))
		for _, r := range results {
			points = append(points, plotter.XY{X: float64(r.size), Y: r.seconds(series.contender, series.of).median})
		}
		lines = append(lines, series.name, points)
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return err
	}
	p.Legend.Top, p.Legend.Left = true, true
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, path)
}

// plotDrift plots the share of drifts that were corrected within a time.
func plotDrift(path string, r result) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Drift corrected, with %d DemoApps", r.size)
	p.X.Label.Text, p.Y.Label.Text = "milliseconds", "share"
	p.Y.Min, p.Y.Max, p.X.Min = 0, 1, 0
	share := func(times []time.Duration) plotter.XYs {
		points := make(plotter.XYs, 0, len(times))
		for i, t := range times {
			points = append(points, plotter.XY{X: milliseconds(t), Y: float64(i+1) / float64(len(times))})
		}
		return points
	}
	if err := plotutil.AddLines(p, "quiet", share(r.pooled(drifts)), "while installing", share(r.pooled(driftsUnderLoad))); err != nil {
		return err
	}
	p.Legend.Left = false
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, path)
}
