// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// The contenders of a comparison.
const (
	oldName = "old"
	newName = "new"
)

// comparedPhases are the figures of a comparison.
var comparedPhases = []struct {
	name string
	of   func(figures) time.Duration
}{
	{"install", func(f figures) time.Duration { return f.install }},
	{"upgrade", func(f figures) time.Duration { return f.upgrade }},
	{"delete", func(f figures) time.Duration { return f.delete }},
	{"restart to caught up", func(f figures) time.Duration { return f.restart }},
	{"drift, median", func(f figures) time.Duration { return quantile(f.drift, 0.5) }},
	{"drift while installing, median", func(f figures) time.Duration { return quantile(f.driftUnderLoad, 0.5) }},
	{"CPU of the installs", func(f figures) time.Duration { return f.installCPU }},
	{"CPU of the upgrades", func(f figures) time.Duration { return f.upgradeCPU }},
}

// compare alternates two operators and prints their times and ratios.
func compare(ctx context.Context, o options, oldBinary, newBinary string) error {
	for _, s := range o.sizes {
		r, err := measure(ctx, o, s, contender{name: oldName, binary: oldBinary}, contender{name: newName, binary: newBinary})
		if err != nil {
			return fmt.Errorf("%d DemoApps: %w", s.apps, err)
		}
		writeComparison(os.Stdout, r)
	}
	return nil
}

// writeComparison writes the table of one size.
func writeComparison(out io.Writer, r result) {
	fmt.Fprintf(out, "\n%d DemoApps, %d rounds: medians (least to most)\n\n| phase | old | new | new/old |\n|---|---|---|---|\n",
		r.size, len(r.figures[newName]))
	for _, phase := range comparedPhases {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", phase.name, r.milliseconds(oldName, phase.of).text(0, " ms"),
			r.milliseconds(newName, phase.of).text(0, " ms"), r.ratio(newName, oldName, phase.of).text(2, ""))
	}
	for _, requests := range []struct {
		name string
		of   func(figures) float64
	}{
		{"requests of an install", func(f figures) float64 { return f.installRequests }},
		{"requests of an upgrade", func(f figures) float64 { return f.upgradeRequests }},
		{"requests of a delete", func(f figures) float64 { return f.deleteRequests }},
	} {
		fmt.Fprintf(out, "| %s | %s | %s | |\n", requests.name, r.each(oldName, requests.of).text(2, ""), r.each(newName, requests.of).text(2, ""))
	}
}
