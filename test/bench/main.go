// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags of all loads.
type options struct {
	workers, drifts, installing int
	idle                        time.Duration
	brief                       bool
	// newer is the binary of an operator with another version of the demo chart, or empty.
	newer string
}

// The contenders. With floorName as its argument, this program is the floor.
const (
	floorName    = "floor"
	operatorName = "operator"
	oldName      = "old"
	newName      = "new"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run measures the loads and prints their tables. It fails if the floor was slower than the
// operator.
func run(ctx context.Context) error {
	if len(os.Args) == 2 && os.Args[1] == floorName {
		serveFloor(ctx, os.Stdin, os.Stdout)
		return nil
	}
	var o options
	sizes := flag.String("sizes", "200x5,1000x3,5000x1,memcached=1000,website=1000,ecommerceplatform=200",
		"numbers of DemoApps, or of a kind of artifacts/kinds, each with its number of rounds (default 1)")
	operator := flag.String("operator", "../../bin/demoapp-controller", "path of the operator")
	old := flag.String("compare", "", "path of another operator, which takes the place of the floor")
	flag.StringVar(&o.newer, "newer", "",
		"path of an operator with another version of the demo chart, which replaces the operator in loads of DemoApps")
	out := flag.String("out", "", "page to write, such as docs/benchmarks.md; the tables also go to standard output")
	replicas := flag.Int("replicas", 1, "replicas of the operator")
	args := flag.String("args", "", "further flags of the operator, separated by spaces")
	flag.IntVar(&o.workers, "workers", 10, "workers of the operator, of the floor and of the load generator")
	flag.IntVar(&o.drifts, "drifts", 200, "number of changes to children")
	flag.IntVar(&o.installing, "installing", 200, "number of installs that run while drift is measured a second time")
	flag.DurationVar(&o.idle, "idle", time.Minute, "time for which the idle operator is observed, in the last round")
	flag.BoolVar(&o.brief, "brief", false, "leave out the floor and upgrades, and the deletions of the last round")
	flag.Parse()
	loads, err := parseLoads(*sizes)
	if err != nil {
		return err
	}
	contenders := []contender{
		{name: floorName},
		{name: operatorName, binary: *operator, replicas: *replicas, args: strings.Fields(*args)},
	}
	if *old != "" {
		contenders[0] = contender{name: oldName, binary: *old, replicas: 1}
		contenders[1].name = newName
	} else if o.brief {
		contenders = contenders[1:]
	}
	tables := fmt.Sprintf("%s, %d workers, %s.\n\n", machine(), o.workers, time.Now().Format("2 January 2006"))
	fmt.Print(tables)
	var slower []error
	for _, l := range loads {
		r := measure(ctx, o, l, contenders)
		table := r.table(contenders)
		fmt.Print(table)
		tables += table
		slower = append(slower, r.checkFloor())
		// The figures of a load take long to measure, so they are kept even if a later load fails.
		if *out != "" {
			if err := writePage(*out, tables); err != nil {
				return err
			}
		}
	}
	return errors.Join(slower...)
}

// machine describes the machine and the toolchain of the figures.
func machine() string {
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	_, model, _ := strings.Cut(string(cpus), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	return fmt.Sprintf("%d cores (%s), %s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.Version())
}

// writePage writes the tables between two marks of a page.
func writePage(path, tables string) error {
	const begin, end = "<!-- figures -->\n", "<!-- end of figures -->\n"
	page, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return err
	}
	before, _, _ := strings.Cut(string(page), begin)
	_, after, _ := strings.Cut(string(page), end)
	return os.WriteFile(path, []byte(before+begin+tables+end+after), 0o600) //nolint:gosec // The caller names the page.
}

// result has the rounds of each contender of one load.
type result struct {
	load   load
	rounds map[string][]round
}

// median returns the median of values, of which there is at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// cell returns the median and, if the rounds differ, the least and the most. It is empty without
// values.
func cell(values []float64, decimals int, unit string) string {
	if len(values) == 0 {
		return ""
	}
	number := func(value float64) string { return strconv.FormatFloat(value, 'f', decimals, 64) }
	text := strings.TrimSpace(number(median(values)) + " " + unit)
	if least, most := number(slices.Min(values)), number(slices.Max(values)); least != most {
		text += fmt.Sprintf(" (%s to %s)", least, most)
	}
	return text
}

// ratios returns the ratios of a figure of two contenders, each of the same round. A ratio to 0 is
// left out. Without a base, ratios returns the values.
func (r result) ratios(contender, base string, of figure) []float64 {
	value := func(of figure, in round) float64 {
		i := slices.IndexFunc(in, func(f figure) bool { return f.phase == of.phase && f.name == of.name })
		if i < 0 {
			return math.NaN()
		}
		return in[i].value
	}
	var ratios []float64
	for i, figures := range r.rounds[contender] {
		ratio := value(of, figures)
		if base != "" {
			ratio /= value(of, r.rounds[base][i])
		}
		if !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
			ratios = append(ratios, ratio)
		}
	}
	return ratios
}

// table returns the figures of the contenders as Markdown. With two contenders, the last column has
// the ratios of the second one to the first one.
func (r result) table(contenders []contender) string {
	var table strings.Builder
	last := contenders[len(contenders)-1].name
	names := []string{"phase", "figure"}
	for _, c := range contenders {
		names = append(names, c.name)
	}
	if len(contenders) > 1 {
		names = append(names, "ratio")
	}
	rounds := r.rounds[last]
	fmt.Fprintf(&table, "### %s, rounds: %d\n\n| %s |\n%s|\n", r.load, len(rounds), strings.Join(names, " | "), strings.Repeat("|---", len(names)))
	// The last round has all figures.
	for _, f := range rounds[len(rounds)-1] {
		cells := []string{f.phase, f.name}
		for _, c := range contenders {
			cells = append(cells, cell(r.ratios(c.name, "", f), f.decimals, f.unit))
		}
		if len(contenders) > 1 {
			cells = append(cells, cell(r.ratios(last, contenders[0].name, f), 2, ""))
		}
		fmt.Fprintf(&table, "| %s |\n", strings.Join(cells, " | "))
	}
	return table.String() + "\n"
}

// checkFloor returns an error if there is a floor that was slower than the operator in the median
// of the rounds.
func (r result) checkFloor() error {
	if len(r.rounds[floorName]) == 0 {
		return nil
	}
	var errs []error
	for _, phase := range []string{installPhase, upgradePhase} {
		ratios := r.ratios(operatorName, floorName, figure{phase: phase, name: "time"})
		if len(ratios) > 0 && median(ratios) < 1 {
			errs = append(errs, fmt.Errorf("%s: %s: the floor was slower than the operator (%s): it is no floor", r.load, phase, cell(ratios, 2, "")))
		}
	}
	return errors.Join(errs...)
}
