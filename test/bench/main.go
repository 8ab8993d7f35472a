// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
)

// options are the flags.
type options struct {
	root       string
	sizes      []size
	workers    int
	driftCount int
	idle       time.Duration
	// others is the number of Secrets of others, and that of ConfigMaps.
	others int
}

// size is a number of DemoApps, and how often it is measured.
type size struct {
	apps, rounds int
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	o := options{}
	sizes := flag.String("sizes", "200x5,1000x3,5000x1", "numbers of DemoApps, each with its number of rounds, separated by commas")
	flag.StringVar(&o.root, "root", ".", "root of the repository")
	flag.IntVar(&o.workers, "workers", 10, "workers of the operator and of the floor")
	flag.IntVar(&o.driftCount, "drifts", 200, "number of objects to change for the drift figures")
	flag.DurationVar(&o.idle, "idle", time.Minute, "time for which the idle operator is observed, once for each size")
	out := flag.String("out", "docs", "folder for benchmarks.md and its plots, below the root")
	old := flag.String("compare", "", "path of another operator binary; it is compared with the operator of the working tree, without the floor and without a report")
	watches := flag.String("watches", "", "numbers of kinds of watches.yaml and of releases of each, for example 20x50; they are measured in place of DemoApps, "+
		"and the figures go to standard output")
	kinds := flag.String("kinds", "", "folders of artifacts/kinds with numbers of objects, for example website=1000,ecommerceplatform=200; these plain Go kinds "+
		"are measured in place of DemoApps, and the figures go to standard output")
	flag.IntVar(&o.others, "others", 10_000, "number of Secrets of others, and of ConfigMaps, for -watches")
	flag.Parse()
	var err error
	if o.sizes, err = parseSizes(*sizes); err != nil {
		return err
	}
	var plain []kindCount
	if *kinds != "" {
		if plain, err = parseKinds(*kinds); err != nil {
			return err
		}
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	binary, err := buildOperator(ctx, o.root)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(binary))
	if *kinds != "" {
		return measureKinds(ctx, o, plain, binary)
	}
	if *watches != "" {
		entries, err := parseSizes(*watches)
		if err != nil || len(entries) != 1 {
			return fmt.Errorf("-watches: %q is not a number of kinds and of releases of each, such as 20x50", *watches)
		}
		return measureWatches(ctx, o, entries[0], binary)
	}
	if *old != "" {
		return compare(ctx, o, *old, binary)
	}
	return report(ctx, o, binary, filepath.Join(o.root, *out))
}

// parseSizes reads numbers of DemoApps such as "200x5,1000": five rounds of 200 and one of 1000.
func parseSizes(text string) ([]size, error) {
	var sizes []size
	for field := range strings.SplitSeq(text, ",") {
		apps, rounds, hasRounds := strings.Cut(strings.TrimSpace(field), "x")
		if !hasRounds {
			rounds = "1"
		}
		s := size{}
		var appsErr, roundsErr error
		s.apps, appsErr = strconv.Atoi(apps)
		s.rounds, roundsErr = strconv.Atoi(rounds)
		if appsErr != nil || roundsErr != nil || s.apps < 1 || s.rounds < 1 {
			return nil, fmt.Errorf("-sizes: %q is not a number of DemoApps, or of DemoApps and rounds such as 200x5", field)
		}
		sizes = append(sizes, s)
	}
	return sizes, nil
}

// The contenders of a report.
const (
	floorName    = "floor"
	operatorName = "operator"
)

// report measures the floor and the operator and writes the report into the folder. It fails if the floor was slower.
func report(ctx context.Context, o options, binary, folder string) error {
	var results []result
	var slower []error
	for _, s := range o.sizes {
		r, err := measure(ctx, o, s, contender{name: floorName}, contender{name: operatorName, binary: binary})
		if err != nil {
			return fmt.Errorf("%d DemoApps: %w", s.apps, err)
		}
		results = append(results, r)
		slower = append(slower, r.checkFloor())
		// The figures of a size take long to measure, so they are kept even if a later size fails.
		if err := writeReport(folder, machine(), o, results); err != nil {
			return err
		}
	}
	return errors.Join(slower...)
}

// machine describes the machine and the toolchain of the figures.
func machine() string {
	model := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.Version())
}

// contender is a program that is measured: an operator, or the floor, which has no binary.
type contender struct {
	name, binary string
}

// inOrder returns the contenders in the order of a round. Each round begins with another contender.
func inOrder(contenders []contender, round int) []contender {
	ordered := make([]contender, 0, len(contenders))
	for i := range contenders {
		ordered = append(ordered, contenders[(round+i)%len(contenders)])
	}
	return ordered
}

// warmUpSize is the number of DemoApps of the round that is not counted.
const warmUpSize = 100

// measure alternates the contenders on one control plane. The first round warms the API server up and does not count.
func measure(ctx context.Context, o options, s size, contenders ...contender) (result, error) {
	log.Printf("%d DemoApps: starting a control plane", s.apps)
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1})
	if err != nil {
		return result{}, err
	}
	defer func() { // The control plane is stopped after the end of ctx, too.
		if err := c.Stop(); err != nil {
			log.Print(err)
		}
	}()
	b, err := newBench(ctx, c, o)
	if err != nil {
		return result{}, err
	}
	defer b.close()
	if err := b.sample(ctx, contenders[len(contenders)-1].binary); err != nil {
		return result{}, fmt.Errorf("install one release to read its shape: %w\n%s", err, b.operatorLog())
	}
	r := result{size: s.apps, figures: map[string][]figures{}}
	for round := range s.rounds + 1 {
		b.size, b.warmUp, b.last = s.apps, round == 0, round == s.rounds
		if b.warmUp {
			b.size = min(s.apps, warmUpSize)
		}
		for _, contender := range inOrder(contenders, round) {
			started := time.Now()
			f, err := b.measure(ctx, contender)
			if err != nil {
				return result{}, fmt.Errorf("round %d, %s: %w\n%s", round, contender.name, err, b.operatorLog())
			}
			log.Printf("%d DemoApps, round %d of %d: %s took %s", b.size, round, s.rounds, contender.name, time.Since(started).Round(time.Second))
			if !b.warmUp {
				r.figures[contender.name] = append(r.figures[contender.name], f)
			}
		}
	}
	return r, nil
}
