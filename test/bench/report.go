// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
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

This page is written by `+"`make bench`"+`; do not edit it. All figures are from one run, on %s, which the control plane,
the load generator and the operator share. %d workers; DemoApps with 0 replicas; %d drifted ConfigMaps.

The floor is a program that sends only the requests that no operator can do without (8 for an install: finalizer, four
applies, the release Secret twice, status; C + 3 for an upgrade that changes C objects), with the same number of workers,
in the same run and cluster. It decides nothing, renders nothing and watches nothing. What it made is removed before the
operator begins.

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

func writeTimes(page *strings.Builder, results []result) {
	page.WriteString("## Times\n\n| DemoApps | install | floor | ratio | upgrade of all | floor | ratio | delete of all | restart to caught up |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(page, "| %d | %s | %s | %.2f | %s | %s | %.2f | %s | %s |\n", r.size,
			seconds(r.install), seconds(r.floorInstall), ratio(r.install, r.floorInstall),
			seconds(r.upgrade), seconds(r.floorUpgrade), ratio(r.upgrade, r.floorUpgrade),
			seconds(r.delete), seconds(r.restart))
	}
	page.WriteString("\n![Times by number of DemoApps](images/benchmarks-times.svg)\n\n")
}

func writeRequests(page *strings.Builder, results []result) {
	page.WriteString("## Requests\n\nFor each DemoApp, events included; lists and watches aside. Idle and restart are totals.\n\n" +
		"| DemoApps | install | upgrade (C = 2) | delete (N = 4) | idle | restart |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		n := float64(r.size)
		fmt.Fprintf(page, "| %d | %.2f | %.2f | %.2f | %.0f in %s | %.0f |\n", r.size,
			r.installRequests/n, r.upgradeRequests/n, r.deleteRequests/n, r.idleRequests, seconds(r.idleFor), r.restartRequests)
	}
	page.WriteString("\n")
}

func writeCosts(page *strings.Builder, results []result) {
	page.WriteString("## Processor and memory of the operator\n\n" +
		"The floor's is that of sending its requests and reading the answers, in the same language and with the same client.\n\n" +
		"| DemoApps | CPU per install | the floor's | CPU per upgrade | CPU idle, per minute | peak RSS | RSS after a restart | CPU of a restart |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(page, "| %d | %.1f ms | %.1f ms | %.1f ms | %.2f s | %d MiB | %d MiB | %s |\n", r.size,
			milliseconds(r.installCPU)/float64(r.size), milliseconds(r.floorCPU-r.loadCPU)/float64(r.size), milliseconds(r.upgradeCPU)/float64(r.size),
			r.idleCPU.Seconds()*float64(time.Minute)/float64(r.idleFor), r.peakRSS/mebibyte, r.restartRSS/mebibyte, seconds(r.restartCPU))
	}
	page.WriteString("\n")
}

func writeDrift(page *strings.Builder, results []result) {
	fmt.Fprintf(page, "## Drift\n\nFrom the answer to the change until a watch shows the correction; one at a time.\n\n"+
		"| DemoApps | median | p99 | worst | median while %d installs run | p99 | worst |\n|---|---|---|---|---|---|---|\n", loadSize)
	for _, r := range results {
		fmt.Fprintf(page, "| %d | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f ms |\n", r.size,
			milliseconds(quantile(r.drift, 0.5)), milliseconds(quantile(r.drift, 0.99)), milliseconds(quantile(r.drift, 1)),
			milliseconds(quantile(r.driftUnderLoad, 0.5)), milliseconds(quantile(r.driftUnderLoad, 0.99)), milliseconds(quantile(r.driftUnderLoad, 1)))
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
		name string
		of   func(result) time.Duration
	}{
		{"install", func(r result) time.Duration { return r.install }},
		{"install, floor", func(r result) time.Duration { return r.floorInstall }},
		{"upgrade", func(r result) time.Duration { return r.upgrade }},
		{"upgrade, floor", func(r result) time.Duration { return r.floorUpgrade }},
		{"delete", func(r result) time.Duration { return r.delete }},
	} {
		points := make(plotter.XYs, 0, len(results))
		for _, r := range results {
			points = append(points, plotter.XY{X: float64(r.size), Y: series.of(r).Seconds()})
		}
		lines = append(lines, series.name, points)
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return err
	}
	p.Legend.Top, p.Legend.Left = true, true
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, path)
}

// plotDrift shows how many of the drifts were corrected within a time.
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
	if err := plotutil.AddLines(p, "quiet", share(r.drift), "while installing", share(r.driftUnderLoad)); err != nil {
		return err
	}
	p.Legend.Left = false
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, path)
}

// quantile of sorted times, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
